"""Reports on the rows that bench/reclaim wrote, as Markdown: reclaimed.py ROWS.

    reclaimed.py --summary    of `onefold --json prune` on standard input, what goes into a row: key value...
"""

import json
import sys

from report import Rows, shown, table

NAMES = {"source": "a source tree, by turns a release and an edited one", "random": "data that does not compress, a fifth new each time"}
# Of what Onefold frees, a peer must free so much to be held against it there.
AS_MUCH = 0.9


def summary(lines):
    for line in map(json.loads, lines):
        if line.get("message_type") == "prune_summary":
            for key in ("copied", "freed", "left_dead"):
                print(key, line[f"bytes_{key}"], end=" ")
            print("nodes", line["nodes_read"])


class Reclaimed:
    """Medians of one program with one setting."""

    def __init__(self, rows, data, who):
        self.who = who
        self.forget, self.prune, self.together = (rows.median(data, step, who) for step in ("forget", "prune", "together"))
        of = lambda field: rows.median(data, "reclaimed", who, field)
        self.before, self.after = of("before"), of("after")
        self.ours = [of(field) for field in ("copied", "freed", "left_dead")]
        again = rows.median(data, "prune-again", who)
        if again is not None and (of("runs") or 1) > 1:
            self.prune += again
        self.peak = max((rows.median(data, step, who, "peak_kib") or 0 for step in ("forget", "prune", "prune-again", "together")))

    @property
    def is_whole(self):
        return None not in (self.forget, self.prune, self.before, self.after)

    @property
    def seconds(self):
        apart = self.forget + self.prune
        return apart if self.together is None else min(apart, self.together)

    @property
    def freed(self):
        return self.before - self.after


def mib(value):
    return shown(None if value is None else value / 2**20, 1)


def print_data(rows, data):
    print(f"### {data}: {NAMES.get(data, data)}\n")
    found = dict.fromkeys(who for (of, _, who) in rows.cells if of == data)
    measured = [each for each in (Reclaimed(rows, data, who) for who in found) if each.is_whole]
    measured.sort(key=lambda each: (not each.who.startswith("onefold"), each.who))
    ours = next((each for each in measured if each.who == "onefold"), None)
    head = ["", "forget, s", "prune, s", "one command, s", "the quicker, s", "Onefold / it", "before, MiB", "after", "freed"]
    head += ["copied", "freed, its report", "left unused", "peak, MiB"]
    lines = []
    for each in measured:
        ratio = shown(ours.seconds / each.seconds) if ours and each is not ours else ""
        lines.append(
            [each.who, shown(each.forget), shown(each.prune), shown(each.together), shown(each.seconds), ratio]
            + [mib(each.before), mib(each.after), mib(each.freed)]
            + [mib(value) for value in each.ours]
            + [shown(each.peak / 1024, 0)]
        )
    table(head, lines)
    peers = [each for each in measured if not each.who.startswith("onefold")]
    if ours is None or not peers:
        return
    lines = []
    much = [each for each in peers if each.freed >= AS_MUCH * ours.freed]
    for what, among in (("of all peers", peers), (f"of those that free at least {AS_MUCH:.0%} of what Onefold does", much)):
        for measure, how in (("forget and prune", lambda each: each.seconds), ("prune", lambda each: each.prune)):
            if among:
                best = min(among, key=how)
                cells = [f"{how(ours):.2f} s", f"{how(best):.2f} s, {best.who}", shown(how(ours) / how(best))]
                lines.append([f"{measure}, the fastest {what}"] + cells)
    table(["", "Onefold", "peer", "ours / fastest peer"], lines)


def main():
    if sys.argv[1] == "--summary":
        return summary(sys.stdin)
    rows = Rows(sys.argv[1])
    for about in rows.about:
        print(
            f"{about['when']}: {about['cores']} cores ({about['processor']}), {about['memory_kib'] / 2**20:.0f} GiB, "
            f"{about['file_system']}, Linux {about['kernel']}; medians of {about['runs']} runs, page cache warm; "
            f"forgotten: {about['forgotten']}; {about['max_unused']} may stay unused with `onefold` and `:equal`"
            f"{', small data sets' if about['quick'] == 'yes' else ''}.\n"
        )
    for version in rows.versions.values():
        print(f"- {version}")
    print()
    for row in rows.failed:
        print(f"**Failed**: {row['who']}, {row['data']}, {row['step']} {row.get('of', '')}: {row['failed']}\n")
    for data in dict.fromkeys(data for (data, _, _) in rows.cells):
        print_data(rows, data)


if __name__ == "__main__":
    main()
