#!/usr/bin/env python3
"""Reports on the rows that bench/peers wrote, as Markdown: report.py ROWS.

    report.py --keeps NAME DATA STEP FACTOR ROWS [disturbed]
                                                   status 0 if NAME was within FACTOR of the fastest peer in STEP, in some
                                                   step where that is "any", or stored least where it is "stored"

Medians over the runs. A ratio above 1 says that Onefold takes less. bupstash and variants of Onefold are shown and
never counted as a peer. A table of the targets comes first, then every step.
"""

import json
import statistics
import sys
from collections import defaultdict

from figures import EQUAL_LEVEL, figures

PEERS = ("restic", "rustic", "kopia", "kopia-zstd", "borg", "borg-zstd")
ORDER = ("onefold", "onefold-off", "onefold-zstd", "onefold-image") + PEERS + ("bupstash",)
NAMES = {
    "random": "(a), (b): one incompressible file",
    "source": "(c): releases of a source tree",
    "small": "(d): small files",
    "image": "(e): states of a disk image",
}


class Rows:
    """The rows of one or more measuring runs, by data set, step and program."""

    def __init__(self, path):
        self.about, self.versions, self.failed, self.other = [], {}, [], []
        self.cells = defaultdict(list)
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                self.take(json.loads(line))

    def take(self, row):
        step = row["step"]
        if "failed" in row:
            self.failed.append(row)
        elif step == "about":
            self.about.append(row)
        elif step == "version":
            self.versions[row["who"]] = row["version"]
        elif step == "verified" or "exceeded" in row:
            pass
        elif "data" in row:
            self.cells[row["data"], step, row["who"]].append(row)
        else:
            self.other.append(row)

    def median(self, data, step, who, field="seconds"):
        """None where it was not measured."""
        values = [row[field] for row in self.cells.get((data, step, who), []) if row.get(field) is not None]
        return statistics.median(values) if values else None

    def mark(self, data, step, who):
        """A star where one value is no median."""
        return "*" if len(self.cells.get((data, step, who), [])) == 1 else ""

    def processor(self, data, step, who):
        user, system = self.median(data, step, who, "user"), self.median(data, step, who, "system")
        return None if user is None else user + system

    def best(self, data, step, among=PEERS, field="seconds"):
        """(least, who), or (None, None)."""
        found = [(self.median(data, step, who, field), who) for who in among]
        found = [pair for pair in found if pair[0] is not None]
        return min(found) if found else (None, None)

    def steps(self, data):
        """In the order in which programs, then limits of the machine, were first measured."""
        found = [(who not in ORDER, step) for (of, step, who) in self.cells if of == data]
        return list(dict.fromkeys(step for _, step in sorted(found, key=lambda pair: pair[0])))

    def programs(self, data):
        found = {who for (of, _, who) in self.cells if of == data}
        return [who for who in ORDER if who in found]

    def keeps(self, name, data, step, factor, disturbed=False):
        """Whether it was near the fastest peer in that step, or with "any" in a step other than listing.

        Where the machine was disturbed, processor time may show it too. What was not measured is kept.
        """
        measured = {of for (in_data, of, who) in self.cells if (in_data, who) == (data, name)}
        if factor <= 0 or name not in PEERS + ("bupstash",) or not measured:
            return True
        if step == "stored":
            return name == self.best(data, step, EQUAL_LEVEL, "bytes")[1]
        for each in measured - {"stored", "list"} if step == "any" else measured & {step}:
            for how in (self.median, self.processor) if disturbed else (self.median,):
                peers = [how(data, each, who) for who in PEERS]
                least = min((value for value in peers if value is not None), default=None)
                mine = how(data, each, name)
                if least is not None and mine is not None and mine <= factor * least:
                    return True
        return False


def shown(value, digits=2):
    return "" if value is None else f"{value:,.{digits}f}"


def table(head, lines):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for line in lines:
        print("| " + " | ".join(line) + " |")
    print()


def print_about(rows):
    for about in rows.about:
        print(
            f"{about['when']}: {about['cores']} cores ({about['processor']}), {about['memory_kib'] / 2**20:.0f} GiB, "
            f"{about['file_system']}, Linux {about['kernel']}; {about['runs']} runs, page cache {about['backup_state']} before "
            f"backups, {about['restore_state']} before restores and checks{', small data sets' if about['quick'] == 'yes' else ''}.\n"
        )
    for version in rows.versions.values():
        print(f"- {version}")
    print()
    for row in rows.failed:
        print(f"**Failed**: {row['who']}, {row['data']}, {row['step']}: {row['failed']}\n")


def print_figures(rows):
    print("## Targets\n")
    lines = []
    for figure in figures(rows):
        lines.append(
            [figure.what, figure.ours, figure.beside, figure.ratio, figure.least, figure.goal, figure.verdict()]
        )
    table(["figure", "Onefold", "beside", "ratio", "at least", "goal", "reached"], lines)


def print_data(rows, data):
    programs = rows.programs(data)
    print(f"## {NAMES.get(data, data)}\n\nSeconds; a star marks a value of one run. *Ratio*: the fastest peer's time by Onefold's.\n")
    lines, processor, memory, limits = [], [], [], []
    for step in rows.steps(data):
        for who in sorted({who for (of, s, who) in rows.cells if (of, s) == (data, step)} - set(ORDER)):
            limits.append([step, who, shown(rows.median(data, step, who)), shown(rows.processor(data, step, who))])
        if not any(rows.cells.get((data, step, who)) for who in programs):
            continue
        if step == "stored":
            continue
        least, who = rows.best(data, step)
        ours = rows.median(data, step, "onefold")
        ratio = f"{least / ours:.2f} ({who})" if least is not None and ours else ""
        lines.append([step, ratio] + [shown(rows.median(data, step, name)) + rows.mark(data, step, name) for name in programs])
        processor.append([step] + [shown(rows.processor(data, step, name)) for name in programs])
        peaks = [rows.median(data, step, name, "peak_kib") for name in programs]
        memory.append([step] + [shown(None if peak is None else peak / 1024, 0) for peak in peaks])
    table(["step", "ratio"] + programs, lines)
    if limits:
        print("Limits of the machine, measured in the same run.\n")
        table(["step", "what", "seconds", "processor s"], limits)
    stored = [rows.median(data, "stored", name, "bytes") for name in programs]
    if any(value is not None for value in stored):
        print("Stored after all steps, MiB.\n")
        table(programs, [[shown(None if value is None else value / 2**20, 1) for value in stored]])
    print("Processor time, user and system, seconds.\n")
    table(["step"] + programs, processor)
    print("Peak memory of the largest process, MiB.\n")
    table(["step"] + programs, memory)


def main():
    if sys.argv[1] == "--keeps":
        name, data, step, factor, path = sys.argv[2:7]
        sys.exit(0 if Rows(path).keeps(name, data, step, float(factor), sys.argv[7:] == ["disturbed"]) else 1)
    rows = Rows(sys.argv[1])
    print_about(rows)
    print_figures(rows)
    for data in dict.fromkeys(data for (data, _, _) in rows.cells):
        print_data(rows, data)


if __name__ == "__main__":
    main()
