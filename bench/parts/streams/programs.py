"""The programs under measurement: a server, the laboratory, and clients."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ONEFOLD = os.environ.get("ONEFOLD", str(ROOT / "target/release/onefold"))
LAB = os.environ.get("ONEFOLD_LAB", str(ROOT / "target/release/onefold-lab"))
NAMESPACE = "web"
TICKS = os.sysconf("SC_CLK_TCK")


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def output(command, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False, **more)
    if done.returncode != 0:
        errors = done.stderr.decode(errors="replace").strip()
        raise SystemExit(f"{' '.join(map(str, command))}: failed: {errors[-2000:]}")
    return done.stdout


def summary(command, **more):
    """The last line of a command's JSON."""
    return json.loads(output(command, **more).splitlines()[-1])


def cpu_of(pid):
    """Processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / TICKS


def make_server(folder):
    output([ONEFOLD, "--insecure-no-password", "-q", "server", "init", folder])
    output([ONEFOLD, "-q", "server", "namespace", "add", folder, NAMESPACE])


def copy(folder, to):
    output(["cp", "-a", folder, to])
    return to


class Waited:
    """A process that makes a socket, and ends when it is told to. Used in a `with`."""

    def __init__(self, command, socket):
        self.command, self.socket = list(map(str, command)), socket

    def __enter__(self):
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        while not self.socket.exists():
            if self.process.poll() is not None:
                raise SystemExit(f"{self.command}: {self.process.stderr.read().decode()}")
            time.sleep(0.002)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.process.stderr.close()

    def cpu(self):
        return cpu_of(self.process.pid)


class Server(Waited):
    """A server of a folder, which listens on a socket beside it."""

    def __init__(self, folder):
        socket = folder.with_name(folder.name + ".socket")
        command = [ONEFOLD, "--insecure-no-password", "-q", "serve", folder, "--socket", socket]
        super().__init__([*command, "--listen", "127.0.0.1:0"], socket)


class Recorder(Waited):
    """A relay to a server. Its end completes the recording."""

    def __init__(self, server, file):
        self.file = file
        socket = file.with_name("relay")
        super().__init__([LAB, "-q", "record", "--listen", socket, "--to", server.socket, file], socket)

    @property
    def place(self):
        return f"unix://{self.socket}/{NAMESPACE}"


def replay(files, server, streams):
    """Replays recordings. Returns what they took, with the server's processor time."""
    before = server.cpu()
    done = summary([LAB, "--json", "-q", "replay", *files, "--to", server.socket, "--streams", streams])
    done["server_cpu"] = round(server.cpu() - before, 3)
    return done


class Client:
    """Clients' commands, with their processor time."""

    def __init__(self):
        self.cpu = 0.0

    def run(self, command, **more):
        before = os.times()
        done = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              check=False, **more)
        after = os.times()
        if done.returncode != 0:
            raise SystemExit(f"{command}: failed: {done.stderr.decode(errors='replace')[-2000:]}")
        self.cpu += after.children_user + after.children_system
        self.cpu -= before.children_user + before.children_system
