"""Medians of the rows: plots for `onefold-lab plot`, and a table."""

import statistics
from collections import defaultdict

FIGURES = {"normal": "7", "uniform": "8"}
NAMES = {"gen-0": "gen-0", "low": "low generations", "high": "high generations"}


def medians(rows):
    """MB/s, bytes on the wire for a byte of data, and the server's processor seconds for a GB."""
    runs = defaultdict(list)
    for row in rows:
        if "seconds" in row:
            key = row["kind"], row["clusters"], row["what"], row["generation"], row["streams"]
            runs[key].append(row)
    made = {}
    for key, several in runs.items():
        middle = lambda figure: statistics.median(map(figure, several))
        made[key] = (
            middle(lambda row: row["bytes"] / row["seconds"] / 1e6),
            middle(lambda row: (row["bytes_sent"] + row["bytes_received"]) / row["bytes"]),
            middle(lambda row: row["server_cpu"] / row["bytes"] * 1e9),
        )
    return made


def of(rows):
    made = medians(rows)
    subtitle = "all streams take turns on one server, in memory; two cores for both ends"
    kinds = list(dict.fromkeys(key[0] for key in made if key[0] != "nfs"))
    for kind in kinds:
        for clusters in dict.fromkeys(key[1] for key in made if key[0] == kind):
            figure = FIGURES[clusters]
            for part, title, shown in [
                ("a", "writes", [("write", "gen-0"), ("write", "low"), ("write", "high")]),
                ("b", "reads", [("read", "gen-0"), ("read", "low"), ("read", "high")]),
                ("c", "synthetics", [("synthetic", "low"), ("synthetic", "high"), ("write", "low"), ("write", "high")]),
            ]:
                if kind == "images" and part != "c":
                    continue
                series = [line(made, kind, clusters, what, generation) for what, generation in shown]
                if part != "c":
                    series.append(line(made, "nfs", "", "write" if part == "a" else "read", ""))
                yield {
                    "kind": "plot",
                    "name": f"streams-{figure}{part}" + ("-images" if kind == "images" else ""),
                    "title": f"Figure {figure}{part}: {title}, {clusters} changes, {kind}",
                    "subtitle": subtitle,
                    "x": {"label": "streams at the same time", "scale": "doubling"},
                    "y": {"label": "MB of data a second", "scale": "doubling"},
                    "series": [one for one in series if one["points"]],
                }


def line(made, kind, clusters, what, generation):
    name = "NFS" if kind == "nfs" else f"{what}, {NAMES[generation]}"
    points = [[key[4], value[0]] for key, value in made.items() if key[:4] == (kind, clusters, what, generation)]
    return {"name": name, "points": sorted(points)}


def table(rows):
    """Prints Markdown."""
    made = medians(rows)
    streams = sorted({key[4] for key in made})
    lines = list(dict.fromkeys(key[:4] for key in made))
    heads = [f"{number}" for number in streams]
    print("| what | " + " | ".join(heads) + " | wire, % | server, s/GB |")
    print("|---" * (len(streams) + 3) + "|")
    for one in lines:
        rates = [made.get((*one, number)) for number in streams]
        cells = [f"{rate[0]:,.0f}" if rate else "" for rate in rates]
        last = [rate for rate in rates if rate][-1]
        name = ", ".join(word for word in one if word)
        print(f"| {name} | " + " | ".join(cells) + f" | {last[1] * 100:.2f} | {last[2]:.2f} |")
    used = [row["nfs_client_cpu"] / row["bytes"] * 1e9 for row in rows if "nfs_client_cpu" in row]
    if used:
        print(f"nfs: client {statistics.median(used):.2f} s/GB")
    for row in rows:
        if "client_cpu" in row:
            gb = row["bytes"] / 1e9
            name = ", ".join(filter(None, [row["kind"], row["clusters"], row["generation"], row["what"]]))
            print(f"{name}: client {row['client_cpu'] / gb:.2f} s/GB, server {row['server_cpu'] / gb:.2f} s/GB")
