"""The pieces of a generation that its parent has, from a chunk trace of both."""

import struct

FINGERPRINT_BYTES = 32


def backups(trace):
    """The chunks of each backup of a trace: fingerprint and length. docs/lab.md has the format."""
    data, at, all_chunks = trace.read_bytes(), 8, []
    while True:
        tag = data[at : at + 1]
        at += 1
        if tag == b"B":
            all_chunks.append([])
            at += 3 + struct.unpack_from("<H", data, at + 1)[0]
        elif tag == b"C":
            (count,) = struct.unpack_from("<I", data, at)
            at += 4
            for _ in range(count):
                fingerprint = data[at : at + FINGERPRINT_BYTES]
                (length,) = struct.unpack_from("<I", data, at + FINGERPRINT_BYTES)
                all_chunks[-1].append((fingerprint, length))
                at += FINGERPRINT_BYTES + 4
        elif tag == b"E":
            at += 16
        else:
            return all_chunks


def of(parent, child):
    """Lines for `onefold-lab synthesize`: what the child copies from its parent, and what it reads."""
    places, at = {}, 0
    for fingerprint, length in parent:
        places.setdefault(fingerprint, at)
        at += length
    runs = []  # [offset in the parent or None, length]
    for fingerprint, length in child:
        place = places.get(fingerprint)
        last = runs[-1] if runs else None
        if last and place is None and last[0] is None:
            last[1] += length
        elif last and place is not None and last[0] is not None and last[0] + last[1] == place:
            last[1] += length
        else:
            runs.append([place, length])
    return [f"data {length}" if place is None else f"copy {place} {length}" for place, length in runs]
