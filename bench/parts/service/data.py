"""The tree that is backed up: text and random bytes, the same in every run."""

import filecmp
import random

WORDS = [f"word{n}" for n in range(2000)]


def plant(tree, files, size):
    source = random.Random(7)
    each = size // files
    for number in range(files):
        folder = tree / f"folder {number // 100}"
        folder.mkdir(parents=True, exist_ok=True)
        length = source.randrange(each // 2, each * 3 // 2)
        if number % 2:
            content = source.randbytes(length)
        else:
            content = " ".join(source.choices(WORDS, k=length // 7)).encode()[:length]
        (folder / f"file {number}").write_bytes(content)


def change(tree):
    """Changes one file in place: a few bytes in the middle."""
    path = tree / "folder 0" / "file 7"
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle] = (content[middle] + 1) % 256
    path.write_bytes(content)


def compare(tree, restored):
    """Fails unless every file came back."""
    for path in sorted(tree.rglob("*")):
        there = restored / path.relative_to(tree)
        if path.is_file() and not filecmp.cmp(path, there, shallow=False):
            raise SystemExit(f"{there} differs from {path}")
