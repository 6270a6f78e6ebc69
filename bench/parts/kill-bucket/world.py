"""Hosts with trees, the S3 server that they share, and commands that are killed."""

import hashlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

KEY, SECRET, REGION, BUCKET = "bucketkey", "bucketsecretbucket", "us-east-1", "shared"
# How much faster the monotonic clocks of prunes and the like run: half an hour of silence takes
# half a second.
FAST = 4000
# How much faster those of some backups run: a heartbeat each 0.2 seconds, with which they answer.
BRISK = 50


class Server:
    """versitygw on a folder and a port that stay the same when it is killed and started again, and a
    relay before it if a round trip is to take time."""

    def __init__(self, program, folder, trip):
        self.program, self.folder = program, folder
        (folder / BUCKET).mkdir(parents=True)
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            self.port = bound.getsockname()[1]
        self.gateway = self.relay = None
        self.start()
        self.told_port = self.port
        if trip:
            relay = Path(__file__).parent.parent / "far" / "relay.py"
            self.relay = subprocess.Popen(
                [sys.executable, relay, str(self.port), str(trip)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            self.told_port = int(self.relay.stdout.readline())

    def start(self):
        self.gateway = subprocess.Popen(
            [self.program, "--port", f"127.0.0.1:{self.port}", "--access", KEY, "--secret", SECRET,
             "--region", REGION, "--keep-alive", "--quiet", "posix", self.folder],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )

    def wait(self):
        """Until it accepts connections."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise SystemExit("the S3 server does not start")

    def kill(self):
        self.gateway.kill()
        self.gateway.wait()

    def end(self):
        self.kill()
        if self.relay:
            self.relay.terminate()
            self.relay.wait()

    def url(self, prefix):
        return f"s3:http://127.0.0.1:{self.told_port}/{BUCKET}/{prefix}"


class Host:
    """A host: a name, a cache, and a tree."""

    def __init__(self, name, folder, server, hasten):
        self.name, self.folder, self.hasten = name, folder / name, hasten
        self.tree = self.folder / "tree"
        self.tree.mkdir(parents=True)
        (self.folder / "home").mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "ONEFOLD_CACHE_DIR": str(self.folder / "cache"),
            "ONEFOLD_PASSWORD": "kills",
            "ONEFOLD_REPOSITORY": server.url("store"),
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
            "NO_PROXY": "127.0.0.1",
        }

    def change(self, draw, pool):
        """Writes 1 to 3 MiB anew, takes a file that the other host may have too, keeps 10 files."""
        for _ in range(draw.randint(1, 3)):
            name = self.tree / f"folder{draw.randrange(3)}" / f"new{draw.randrange(8)}"
            name.parent.mkdir(exist_ok=True)
            name.write_bytes(draw.randbytes(draw.randint(100_000, 1_000_000)))
        for number in range(draw.randint(1, 20)):
            (name.parent / f"small{number}").write_text(f"{draw.random()}\n" * draw.randint(1, 50))
        shared = self.tree / f"shared{draw.randrange(4)}"
        shared.write_bytes(random.Random(draw.choice(pool)).randbytes(700_000))
        grown = self.tree / "grown"
        with grown.open("ab") as out:
            out.write(draw.randbytes(50_000))
        large = sorted(path for path in self.tree.rglob("new*"))
        for path in draw.sample(large, max(0, len(large) - 8)):
            path.unlink()

    def start(self, log, kind, words, rate=None):
        return Job(self, log, kind, words, rate)


class Job:
    """A command that runs: `end` is its exit code, or None."""

    def __init__(self, host, log, kind, words, rate=None):
        self.host, self.kind, self.words, self.log = host, kind, list(words), log
        env = dict(host.env)
        if rate:
            env.update(HASTEN=str(rate), LD_PRELOAD=str(host.hasten))
        self.out, self.err = log.with_suffix(".out"), log.with_suffix(".err")
        self.began = time.monotonic()
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [os.environ["ONEFOLD"], *map(str, self.words)], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        self.seconds = None

    @property
    def usual_key(self):
        """Commands with equal keys take about as long."""
        at = self.words.index("--limit-upload") if "--limit-upload" in self.words else None
        return (self.kind, at and self.words[at + 1])

    def poll(self):
        if self.seconds is None and self.process.poll() is not None:
            self.seconds = time.monotonic() - self.began
        return self.process.poll()

    def kill(self):
        if self.poll() is None:
            self.process.send_signal(signal.SIGKILL)

    def wait(self, seconds=120):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
        self.poll()
        return self

    @property
    def code(self):
        return self.process.returncode

    @property
    def was_killed(self):
        return self.code == -signal.SIGKILL

    def lines(self):
        found = []
        for line in self.out.read_bytes().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                pass
        return found

    def line(self, kind):
        return next((line for line in self.lines() if line.get("message_type") == kind), None)

    def said(self):
        """Its last words."""
        errors = [line["message"] for line in self.lines() if "error" in line.get("message_type", "")]
        text = self.err.read_text(errors="replace").strip().splitlines()
        return " / ".join(errors + text)[-400:]


def picture(tree):
    """Each path below the tree: its kind, mode, time, and a digest of its content."""
    found = {}
    for path in tree.rglob("*"):
        stat = path.stat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        found[str(path.relative_to(tree))] = (stat.st_mode, stat.st_mtime_ns, digest)
    return found


def built_hasten(folder):
    """The library that lets clocks run faster."""
    source = Path(__file__).parent / "hasten.c"
    made = folder / "hasten.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", source, "-o", made], check=True)
    return made


def compared(host, log, backup, expected, source, target, more=()):
    """Restores the backup, and returns what is wrong with it."""
    words = ["--json", *more, "restore", backup, "--target", target]
    job = host.start(log, "restore", words).wait()
    if job.code:
        return f"restore of {backup} ended with {job.code}: {job.said()}"
    found = picture(target / str(source).lstrip("/"))
    shutil.rmtree(target)
    names = [name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)]
    if names:
        return f"backup {backup}: {len(names)} paths differ, such as {sorted(names)[:3]}"
    return None
