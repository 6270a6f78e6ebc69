"""Reads snapshots as JSON from standard input, in lists or groups; prints the id of the newest: newest.py [FIELD...]

FIELD names another field to print, each one below the field before it.
"""

import json
import sys


def snapshots(value):
    """All objects that have an id and a time, however deep."""
    if isinstance(value, list):
        for item in value:
            yield from snapshots(item)
    elif isinstance(value, dict):
        if "id" in value and ("time" in value or "startTime" in value):
            yield value
        else:
            yield from snapshots(list(value.values()))


found = max(snapshots(json.load(sys.stdin)), key=lambda s: s.get("time") or s["startTime"])
for field in sys.argv[1:] or ["id"]:
    found = found[field]
print(found)
