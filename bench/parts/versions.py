"""Makes the next version of a folder, in place; the same on every machine.

    versions.py random FOLDER NUMBER MIB STRETCH   files of 8 MiB that do not compress; from version 2 on, a fifth of their
                                                   stretches of so many MiB are overwritten
    versions.py source FOLDER NUMBER FILES         so many files are changed (lines put in, taken out or replaced), a tenth
                                                   as many are new, a tenth go
"""

import pathlib
import random
import sys

MIB = 1 << 20
FILE_MIB = 8


def random_version(folder, number, mib, stretch):
    rng = random.Random(number)
    files = [(folder / f"{at // FILE_MIB:04}", min(FILE_MIB, mib - at)) for at in range(0, mib, FILE_MIB)]
    if number == 1:
        folder.mkdir(parents=True)
        for path, length in files:
            path.write_bytes(rng.randbytes(length * MIB))
        return
    stretches = [(path, at, min(stretch, length - at)) for path, length in files for at in range(0, length, stretch)]
    for path, at, length in sorted(rng.sample(stretches, max(1, len(stretches) // 5))):
        with open(path, "r+b") as file:
            file.seek(at * MIB)
            file.write(rng.randbytes(length * MIB))


def text(rng, lines):
    """Some source text that no other file has."""
    words = ("value", "return", "if", "for", "name", "result", "self", "module", "options", "state", "None")
    return "".join(
        f"    {' '.join(rng.choices(words, k=6))} {rng.getrandbits(40):x}\n" for _ in range(lines)
    ).encode()


def edited(rng, old):
    """The file with one stretch of lines put in, taken out, or replaced."""
    lines = old.splitlines(keepends=True)
    at, length = rng.randrange(len(lines) + 1), rng.randrange(1, 30)
    gone = length if rng.random() < 0.6 else 0
    new = text(rng, length) if not gone or rng.random() < 0.7 else b""
    return b"".join(lines[:at]) + new + b"".join(lines[at + gone :])


def source_version(folder, number, count):
    rng = random.Random(number)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    chosen = rng.sample(files, min(count + count // 10, len(files)))
    for place, path in enumerate(chosen):
        if place < count:
            path.write_bytes(edited(rng, path.read_bytes()))
            continue
        path.with_name(f"new-{number}-{place}.py").write_bytes(text(rng, rng.randrange(20, 400)))
        path.unlink()


def main():
    kind, folder, numbers = sys.argv[1], pathlib.Path(sys.argv[2]), map(int, sys.argv[3:])
    {"random": random_version, "source": source_version}[kind](folder, *numbers)


if __name__ == "__main__":
    main()
