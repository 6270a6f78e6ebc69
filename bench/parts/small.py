#!/usr/bin/env python3
"""Makes a tree of many small files, the same for the same arguments: small.py FOLDER FILES.

Files have 1 to 16 KiB; of each two in a row one is text (words drawn from a vocabulary, so that zstd halves it
or better) and one random. They lie in folders of some 50, three deep. Times of change are set, so that two trees
made by this are equal to a program that looks at names, sizes and times. No content comes twice.
"""

import os
import random
import sys

FILES_A_FOLDER = 50
BYTES_MIN = 1 << 10
BYTES_MAX = 16 << 10
TIME_S = 1_700_000_000
EXTENSIONS = ("txt", "rs", "py", "json", "html", "c", "h", "md")


def vocabulary(draw):
    """Words whose frequency falls with their rank, as in a language."""
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    weights = [12, 9, 8, 7.5, 7, 6.7, 6.3, 6.1, 6, 4.2, 4, 2.8, 2.7, 2.4, 2.2, 2.1, 2, 1.9, 1, 1.5, 2, 0.8, 0.2, 0.1, 0.2, 0.1]
    words = ["".join(draw.choices(letters, weights, k=draw.randint(1, 11))) for _ in range(8000)]
    return words, [1 / (rank + 3) for rank in range(len(words))]


def sentences(draw, count):
    """Lines of six to fourteen words."""
    words, weights = vocabulary(draw)
    total = []
    for weight in weights:
        total.append(weight + (total[-1] if total else 0))
    return [
        (" ".join(draw.choices(words, cum_weights=total, k=draw.randint(6, 14))) + ".\n").encode()
        for _ in range(count)
    ]


def text(draw, lines, length):
    """`length` bytes of text: a line that is in no other file, then lines of the pool."""
    parts = [b"%x\n" % draw.getrandbits(64)]
    have = len(parts[0])
    while have < length:
        more = draw.choices(lines, k=(length - have) // 55 + 1)
        parts += more
        have += sum(map(len, more))
    return b"".join(parts)[:length]


def folder_of(number):
    """Three levels: of each folder some ten to twenty below it."""
    return os.path.join(f"part-{number // 200:02}", f"module-{number // 10 % 20:02}", f"unit-{number % 10}")


def make(root, count):
    draw = random.Random(20261121)
    lines = sentences(draw, 40_000)
    made = 0
    number = 0
    while made < count:
        folder = os.path.join(root, folder_of(number))
        os.makedirs(folder)
        here = min(count - made, draw.randint(FILES_A_FOLDER // 2, FILES_A_FOLDER * 3 // 2))
        for index in range(here):
            length = draw.randint(BYTES_MIN, BYTES_MAX)
            textual = (made + index) % 2 == 0
            content = text(draw, lines, length) if textual else draw.randbytes(length)
            name = f"{draw.choice(('data', 'page', 'record', 'test'))}_{index:03}.{draw.choice(EXTENSIONS) if textual else 'bin'}"
            path = os.path.join(folder, name)
            mode = 0o755 if draw.random() < 0.05 else 0o644
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            os.write(descriptor, content)
            when = (TIME_S + draw.randrange(50_000_000)) * 1_000_000_000 + draw.randrange(1_000_000_000)
            os.utime(descriptor, ns=(when, when))
            os.close(descriptor)
        os.utime(folder, ns=(TIME_S * 1_000_000_000, TIME_S * 1_000_000_000))
        made += here
        number += 1


if __name__ == "__main__":
    os.umask(0o022)
    make(sys.argv[1], int(sys.argv[2]))
