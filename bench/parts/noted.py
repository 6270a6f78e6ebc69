"""Makes rows of figures that other programs measure, from their JSON lines: noted.py stats|backup|micro|open.

stats   `onefold --json stats`: bytes a hook
backup  `onefold --json backup`: catalogs loaded for nothing, and how much was new
micro   `bench/micro --json`: the fastest chunker beside `fastcdc`, from the first stage that has both
open    `bench/open`: what `snapshots` takes with very many containers beside 1, of as many backups
"""

import json
import sys


def figure(name, value, ours, beside=""):
    print(json.dumps({"step": "figure", "name": name, "value": round(value, 4), "ours": ours, "beside": beside}))


def stats(lines):
    for line in lines:
        if line.get("message_type") != "index":
            continue
        full = "" if line["load"] is None else f", {line['load']:.0%} full"
        figure(f"hook-{line['held']}", line["bytes_per_hook"], f"{line['bytes_per_hook']:.2f} bytes{full}, {line['hooks']} hooks")


def backup(lines):
    for line in lines:
        if line.get("message_type") == "summary":
            row = {"step": "lookups", "catalogs": line["lookups"]["catalogs"], "catalogs_false": line["lookups"]["catalogs_false"]}
            print(json.dumps(row | {"new_bytes": line["data_added"]}))


def micro(lines):
    cases = {}
    for line in lines:
        if line["stage"] != "chunk":
            continue
        cases[line["case"]] = line["ns_median"]
        if line["case"].startswith("fastcdc"):
            break
    theirs = [cases.pop(case) for case in list(cases) if case.startswith("fastcdc")]
    if theirs and cases:
        case, ours = min(cases.items(), key=lambda pair: pair[1])
        figure("gear", theirs[0] / ours, f"{1 / ours:.2f} GB/s ({case})", f"{1 / theirs[0]:.2f} GB/s")


def opening(lines):
    took = {line["store"]: line for line in lines if line["command"] == "snapshots"}
    many, few = took["many"], took["few"]
    ours, beside = (f"{line['ms']:.1f} ms, {line['containers']:,} containers" for line in (many, few))
    figure("open", many["ms"] / few["ms"], f"{ours}, {many['backups']:,} backups", beside)


if __name__ == "__main__":
    {"stats": stats, "backup": backup, "micro": micro, "open": opening}[sys.argv[1]]([json.loads(line) for line in sys.stdin])
