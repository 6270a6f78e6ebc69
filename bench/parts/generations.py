"""A file backed up again and again, after Lillibridge's '2year': the same bytes on every machine."""

import os
import random

MIB = 1 << 20
PART = 256 << 10


def first(path, mib):
    rng = random.Random(1)
    with open(path, "wb") as file:
        for _ in range(mib):
            file.write(rng.randbytes(MIB))


def change(path, mib, generation):
    """The next generation, in place: its parts stand for files; 2 % of them have a tenth overwritten, and 1 % of `mib` is appended."""
    rng = random.Random(generation)
    length = path.stat().st_size
    with open(path, "r+b") as file:
        for number in rng.sample(range(length // PART), max(1, length // PART // 50)):
            size = PART // 10
            file.seek(number * PART + rng.randrange(PART - size))
            file.write(rng.randbytes(size))
        file.seek(0, os.SEEK_END)
        file.write(rng.randbytes(mib * MIB // 100))


def generations(path, mib, count):
    """Puts one after the other there; yields their numbers."""
    first(path, mib)
    yield 1
    for generation in range(2, count + 1):
        change(path, mib, generation)
        yield generation
