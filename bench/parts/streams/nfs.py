"""NFS in user space: Debian's nfs-ganesha, and nfs-cp and nfs-cat of libnfs-utils. The server
deduplicates nothing.

Both run in a network namespace of their own, whose loopback interface counts the bytes.
"""

import os
import random
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from programs import cpu_of, output, say

SPACE = "onefold-nfs"
CONFIG = """
NFS_CORE_PARAM {{ Protocols = 3, 4; NFS_Port = 2049; MNT_Port = 20048;
    Enable_NLM = false; Enable_RQUOTA = false; }}
NFSv4 {{ Graceless = true; RecoveryRoot = {work}; }}
EXPORT_DEFAULTS {{ Access_Type = RW; Squash = no_root_squash; SecType = sys; }}
EXPORT {{ Export_Id = 1; Path = {export}; Pseudo = /export; Protocols = 3, 4; Transports = TCP;
    Access_Type = RW; Squash = no_root_squash; FSAL {{ Name = VFS; }} }}
"""
PATIENCE = 60


def inside(command):
    return ["ip", "netns", "exec", SPACE, *map(str, command)]


def counted():
    """Bytes that the namespace's loopback has carried."""
    text = output(inside(["cat", "/sys/class/net/lo/statistics/tx_bytes"]))
    return int(text)


def measure(args, work, note):
    programs = [shutil.which("ganesha.nfsd"), shutil.which("rpcbind"), shutil.which("nfs-cp")]
    if not all(programs):
        say("# no NFS: ganesha.nfsd, rpcbind or nfs-cp is not installed")
        return
    sources = work / "sources"
    sources.mkdir()
    generator = random.Random(1)
    for number in range(args.lineages):
        # As much as a stream has. NFS sends bytes as they are, so that their kind does not matter.
        with open(sources / f"{number}", "wb") as file:
            for _ in range(args.mib):
                file.write(generator.randbytes(1 << 20))
    for streams in args.streams:
        for _ in range(args.runs):
            # A new server for each run: an old one keeps deleted files open.
            with Ganesha(work / "nfs", sources / "0") as server:
                for what in ("write", "read"):
                    note(run(args, what, streams, sources, server))
    shutil.rmtree(sources)


class Ganesha:
    """A server of an empty folder, in a namespace of its own. Used in a `with`."""

    def __init__(self, folder, probe):
        self.folder, self.export, self.probe, self.running = folder, folder / "export", probe, []

    def __enter__(self):
        self.export.mkdir(parents=True)
        subprocess.run(["ip", "netns", "del", SPACE], stderr=subprocess.DEVNULL, check=False)
        output(["ip", "netns", "add", SPACE])
        output(["ip", "-n", SPACE, "link", "set", "lo", "up"])
        config = self.folder / "ganesha.conf"
        config.write_text(CONFIG.format(work=self.folder, export=self.export))
        try:
            self.start(["rpcbind", "-f", "-w"])
            time.sleep(0.5)
            self.start(["ganesha.nfsd", "-F", "-f", config, "-L", self.folder / "log", "-p", self.folder / "pid"])
            self.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, command):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.running.append(subprocess.Popen(inside(command), **quiet))

    def wait(self):
        """Until a client can write a file."""
        until = time.monotonic() + PATIENCE
        while True:
            command = inside(["nfs-cp", self.probe, place(self.export, "probe")])
            done = subprocess.run(command, capture_output=True, check=False)
            if done.returncode == 0:
                return
            if time.monotonic() > until:
                log = (self.folder / "log").read_text(errors="replace")[-2000:]
                raise SystemExit(f"no NFS: {done.stderr.decode()}\n{log}")
            time.sleep(0.2)

    def cpu(self):
        return cpu_of(self.running[-1].pid)

    def __exit__(self, *_):
        for process in reversed(self.running):
            process.kill()
            process.wait()
        subprocess.run(["ip", "netns", "del", SPACE], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(self.folder)


def place(export, name):
    return f"nfs://127.0.0.1{export}/{name}"


def run(args, what, streams, sources, server):
    def one(name):
        target = place(server.export, name)
        command = ["nfs-cp", sources / name, target] if what == "write" else ["nfs-cat", target]
        subprocess.run(inside(command), stdout=subprocess.DEVNULL, check=True)

    cpu, carried, client, began = server.cpu(), counted(), os.times(), time.monotonic()
    with ThreadPoolExecutor(streams) as pool:
        list(pool.map(one, [path.name for path in sources.iterdir()]))
    seconds, after = time.monotonic() - began, os.times()
    used = after.children_user + after.children_system - client.children_user - client.children_system
    return {
        "kind": "nfs", "clusters": "", "generation": "", "what": what, "streams": streams,
        "seconds": seconds, "bytes": args.lineages * (args.mib << 20), "bytes_sent": counted() - carried,
        "bytes_received": 0, "server_cpu": round(server.cpu() - cpu, 3), "nfs_client_cpu": round(used, 3),
    }
