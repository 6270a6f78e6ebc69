"""The figures that Onefold aims at, each from rows of bench/peers, with what it is held against."""

from dataclasses import dataclass

# Counted as peers that compress, and as peers at zstd level 3, which `onefold-zstd` is told to
# take.
COMPRESSING = ("restic", "rustic", "kopia-zstd", "borg", "borg-zstd")
EQUAL_LEVEL = ("restic", "rustic", "kopia-zstd", "borg-zstd")
MEMORY_MB_MOST, MEMORY_MB_GOAL = 300, 200


@dataclass
class Figure:
    """One line of the table; `value` decides, `None` where it was not measured."""

    what: str
    ours: str
    beside: str
    value: float | None
    least: str
    goal: str
    limits: tuple
    rising: bool = True
    is_ratio: bool = True

    @property
    def ratio(self):
        return f"{self.value:.2f}" if self.is_ratio and self.value is not None else ""

    def verdict(self):
        """Whether the goal, the least, or neither is reached."""
        if self.value is None:
            return "not measured"
        least, goal = self.limits
        reached = [self.value >= limit if self.rising else self.value <= limit for limit in (least, goal)]
        return "goal" if reached[1] else "yes" if reached[0] else "no"


def seconds(value):
    return "" if value is None else f"{value:.2f} s"


def faster(what, ours, theirs, who, least, goal):
    """A line where seconds are compared: theirs over ours."""
    value = theirs / ours if ours and theirs is not None else None
    beside = "" if theirs is None else f"{theirs:.2f} s, {who}"
    return Figure(what, seconds(ours), beside, value, f"{least} x", f"{goal} x", (least, goal))


def beside_peer(rows, what, data, step, least, goal, **among):
    theirs, who = rows.best(data, step, **among)
    return faster(what, rows.median(data, step, "onefold"), theirs, who, least, goal)


def beside_limit(rows, what, data, ours, limit, least, goal):
    """Against what the machine itself gives; ours and limit are pairs of step and program."""
    return faster(what, rows.median(data, *ours), rows.median(data, *limit), limit[1], least, goal)


def next_versions(rows):
    """The version in which we are least ahead."""
    found = []
    for step in rows.steps("source"):
        if step.startswith("next-"):
            theirs, who = rows.best("source", step, COMPRESSING)
            ours = rows.median("source", step, "onefold")
            if ours and theirs is not None:
                found.append((theirs / ours, step, ours, theirs, who))
    if not found:
        return faster("(c) each next version", None, None, None, 2, 4)
    _, step, ours, theirs, who = min(found)
    return faster(f"(c) each next version ({step}: the least)", ours, theirs, who, 2, 4)


def stored(rows, what, data):
    least, who = rows.best(data, "stored", EQUAL_LEVEL, "bytes")
    ours = rows.median(data, "stored", "onefold-zstd", "bytes")
    value = ours / least if ours is not None and least else None
    shown = ["" if n is None else f"{n / 2**20:.1f} MiB" for n in (ours, least)]
    beside = f"{shown[1]}, {who}" if least is not None else ""
    return Figure(what, shown[0], beside, value, "<= 0.90", "<= 0.75", (0.90, 0.75), rising=False)


def memory(rows):
    peaks = [
        (row["peak_kib"] * 1024 / 1e6, data, step, who)
        for (data, step, who), cells in rows.cells.items()
        if who.startswith("onefold")
        for row in cells
        if row.get("peak_kib") is not None
    ]
    most, data, step, who = max(peaks, default=(None, None, None, None))
    ours = "" if most is None else f"{most:.0f} MB ({who}, {data}, {step})"
    limits = (MEMORY_MB_MOST, MEMORY_MB_GOAL)
    return Figure("peak memory, every run", ours, "", most, "<= 300 MB", "<= 200 MB", limits, rising=False, is_ratio=False)


def noted(rows, name, what, least, goal, limits, rising):
    """A line whose value another program of bench/ wrote as a row: step "figure"."""
    row = next((row for row in reversed(rows.other) if row["step"] == "figure" and row["name"] == name), {})
    return Figure(what, row.get("ours", ""), row.get("beside", ""), row.get("value"), least, goal, limits, rising, rising)


def false_loads(rows):
    """Counted over all backups of Onefold that were measured, the first of each store among them."""
    counted = [row for row in rows.other if row["step"] == "lookups"]
    new_gib = sum(row["new_bytes"] for row in counted) / 2**30
    false, loads = (sum(row[key] for row in counted) for key in ("catalogs_false", "catalogs"))
    value = false / new_gib if new_gib else None
    ours = f"{false} of {loads}, in {new_gib:.1f} GiB" if new_gib else ""
    what = "false catalog loads per GiB of new data"
    return Figure(what, ours, "", value, "<= 1", "", (1, 1), rising=False, is_ratio=False)


def figures(rows):
    """All lines, in the order of the table."""
    yield beside_limit(
        rows, "(a) backup, no compression, against `dd conv=fdatasync`", "random",
        ("first", "onefold-off"), ("write", "dd"), 0.75, 0.9,
    )
    yield beside_peer(rows, "(a) backup", "random", "first", 4, 6)
    yield beside_peer(rows, "(b) the same read again", "random", "reread", 4, 6)
    yield beside_limit(
        rows, "(b) against read, chunk and fingerprint on all cores", "random",
        ("reread", "onefold"), ("reread", "bound"), 0.75, 0.9,
    )
    yield beside_peer(rows, "(c) first version", "source", "first", 2, 4, among=COMPRESSING)
    yield next_versions(rows)
    yield beside_peer(rows, "(c) unchanged", "source", "unchanged", 2, 4)
    yield beside_peer(rows, "(d) unchanged", "small", "unchanged", 2, 4)
    yield stored(rows, "(c) stored, equal zstd level", "source")
    yield stored(rows, "(e) stored, equal zstd level", "image")
    yield beside_peer(rows, "(d) first backup", "small", "first", 3, 5)
    yield beside_peer(rows, "(d) first backup, among peers that compress", "small", "first", 3, 5, among=COMPRESSING)
    theirs, who = rows.best("small", "first", EQUAL_LEVEL)
    ours = rows.median("small", "first", "onefold-zstd")
    yield faster("(d) first backup, equal zstd level", ours, theirs, who, 3, 5)
    theirs, who = rows.best("small", "first")
    yield faster("(d) first backup, no compression", rows.median("small", "first", "onefold-off"), theirs, who, 3, 5)
    yield beside_limit(
        rows, "(d) restore, against `tar x`", "small", ("restore", "onefold"), ("restore", "tar"), 0.7, 0.9
    )
    yield beside_limit(
        rows, "(a) restore to /dev/null, against reading the store", "random",
        ("dump", "onefold"), ("store-read", "cat"), 0.85, 0.95,
    )
    yield beside_peer(rows, "(a) restore", "random", "restore", 1.5, 3)
    for data, letter in (("source", "c"), ("image", "e")):
        for step in ("newest", "oldest"):
            yield beside_peer(rows, f"({letter}) restore of the {step}", data, f"restore-{step}", 1.5, 3)
    for data, letter in (("random", "a"), ("source", "c"), ("small", "d"), ("image", "e")):
        yield beside_peer(rows, f"({letter}) check --read-data", data, "check", 2, 4)
    yield noted(rows, "open", "open + list at 1,000,000 containers against 1, and ms", "<= 2 x", "", (2, 2), False)
    yield memory(rows)
    yield noted(rows, "gear", "gear against `fastcdc`, one core", "2 x", "5 x", (2, 5), True)
    yield noted(rows, "hook-memory", "bytes a hook in memory (goal at >= 90 % load)", "<= 8", "", (8, 8), False)
    yield noted(rows, "hook-disk", "bytes a hook on disk", "<= 8", "", (8, 8), False)
    yield false_loads(rows)
