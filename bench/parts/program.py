"""Onefold, run on one store without a password, and what it took: shared by the scripts of bench/ in Python."""

import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MIB = 1 << 20


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def built(package, *more):
    """The executable of a package, built by cargo for release."""
    command = ["cargo", "build", "--release", "--locked", "-p", package, *more, "--message-format=json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT)
    made = [json.loads(line) for line in done.stdout.splitlines()]
    return pathlib.Path(next(one["executable"] for one in reversed(made) if one.get("executable")))


class Failed(Exception):
    """The program did not do what it was told."""


class Run:
    """A command under GNU time: running after `__init__`, done after `end`."""

    def __init__(self, command, stdin=None):
        self.command = list(map(str, command))
        self.errors, self.output, self.took = (tempfile.TemporaryFile("w+") for _ in range(3))
        descriptor = self.took.fileno()
        self.begun = time.perf_counter()
        self.process = subprocess.Popen(
            ["/usr/bin/time", "-o", f"/proc/self/fd/{descriptor}", "-a", "-f", "%M %U %S"] + self.command,
            stdin=stdin or subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.errors,
            pass_fds=[descriptor],
        )
        self.seconds = self.peak_kib = self.processor = None

    @property
    def is_running(self):
        return self.process.poll() is None

    def end(self):
        status = self.process.wait()
        self.seconds = time.perf_counter() - self.begun
        self.errors.seek(0)
        self.said = self.errors.read()
        if status:
            self.output.seek(0)
            raise Failed(f"{shlex.join(self.command)}\nended with {status}: {self.said}{self.output.read()[-2000:]}")
        self.took.seek(0)
        peak, user, system = self.took.read().split()[-3:]
        self.peak_kib, self.processor = int(peak), float(user) + float(system)
        self.output.seek(0)
        self.lines = [json.loads(line) for line in self.output]
        for file in (self.errors, self.output, self.took):
            file.close()
        return self

    @property
    def summary(self):
        return self.lines[-1]


class Store:
    """One store; commands return when they are done."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.program = os.environ.get("ONEFOLD", str(ROOT / "target/release/onefold"))

    def command(self, *words):
        return [self.program, "-q", "--json", "-r", str(self.path), "--insecure-no-password", *map(str, words)]

    def start(self, *words, stdin=None):
        return Run(self.command(*words), stdin)

    def run(self, *words, stdin=None):
        return self.start(*words, stdin=stdin).end()

    def init(self, *words):
        self.run("init", "--reserve-mib", 0, *words)
        return self

    def backup(self, series, path):
        """The file as a backup of its own series; what is new is stored as it is. Its summary."""
        with open(path, "rb") as file:
            return self.run("backup", "--stdin", "--stdin-filename", series, "--compression", "off", stdin=file).summary

    def dump_matches(self, backup, digest, *path):
        """Whether the backup's stream, or this file of it, has this SHA-256."""
        command = self.command("dump", backup, *path)
        command.remove("--json")
        dump = subprocess.Popen(command, stdout=subprocess.PIPE)
        found = subprocess.run(["sha256sum"], stdin=dump.stdout, stdout=subprocess.PIPE, check=True).stdout.split()[0].decode()
        dump.stdout.close()
        if dump.wait():
            raise Failed(f"{shlex.join(command)}\nended with {dump.returncode}")
        return found == digest

    def check(self):
        """Raises where something is wrong."""
        self.run("check", "--read-data")

    def containers(self):
        """All but second copies and catalogs."""
        kinds = [self.path / kind for kind in ("data", "archive", "recipe", "small")]
        return sum(file.is_file() for kind in kinds for file in kind.rglob("*"))

    def takes(self):
        """Objects, their bytes, and what the disk gives them."""
        found = [file.stat() for file in self.path.rglob("*") if file.is_file()]
        return len(found), sum(stat.st_size for stat in found), sum(stat.st_blocks * 512 for stat in found)

    def bytes(self):
        """Without what files were trimmed of."""
        stats = (file.stat() for file in self.path.rglob("*") if file.is_file())
        return sum(min(stat.st_size, stat.st_blocks * 512) for stat in stats)


def digest(path):
    return subprocess.run(["sha256sum", path], stdout=subprocess.PIPE, check=True).stdout.split()[0].decode()


def sync():
    os.sync()


def drop_caches():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")


def table(head, lines):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for line in lines:
        print("| " + " | ".join(map(str, line)) + " |")
    print(flush=True)
