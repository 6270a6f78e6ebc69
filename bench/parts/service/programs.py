"""How each program is told to back up to a server, and to restore from it. All with defaults."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from network import SERVER_ADDRESS

TICKS = os.sysconf("SC_CLK_TCK")


def output(command, env=None):
    done = subprocess.run(list(map(str, command)), capture_output=True, check=True, env=env)
    return done.stdout.decode()


def cpu_of(pid):
    """Processor seconds of a process, and of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except FileNotFoundError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


class Program:
    """A program with its server. The folder is new."""

    binary = ""

    def __init__(self, net, folder):
        self.net, self.folder, self.server = net, folder, None
        home = folder / "home"
        home.mkdir()
        self.env = {**os.environ, "HOME": str(home)}

    @classmethod
    def is_found(cls):
        return shutil.which(cls.binary) is not None

    def serve(self, command):
        log = open(self.folder / "server.log", "wb")
        command = self.net.of_server(command)
        self.server = subprocess.Popen(command, stdout=log, stderr=log, env=self.env)
        time.sleep(2)

    def server_cpu(self):
        """Of the server, and of all its children, which an `sshd` has."""
        if not self.server:
            return 0.0
        pids, total = [self.server.pid], 0.0
        while pids:
            pid = pids.pop()
            total += cpu_of(pid)
            try:
                pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            except FileNotFoundError:
                pass
        return total

    def restored(self, target, tree):
        return Path(str(target) + str(tree))

    def end(self):
        if self.server:
            self.server.send_signal(signal.SIGTERM)
            self.server.wait()


class Onefold(Program):
    binary = os.environ.get("ONEFOLD", "target/release/onefold")

    @classmethod
    def version(cls):
        return output([cls.binary, "--version"]).strip()

    def start(self):
        self.env["ONEFOLD_PASSWORD"] = "bench"
        folder, here = self.folder / "server", shutil.which(self.binary)
        output([here, "server", "init", folder], self.env)
        self.serve([here, "serve", folder])
        made = output(
            [here, "server", "invite", folder, "--namespace", "web", "--address", SERVER_ADDRESS, "--json"],
            self.env,
        )
        invitation = json.loads(made.splitlines()[-1])["invitation"]
        output(self.net.of_client([here, "join", invitation]), self.env)
        self.env["ONEFOLD_REPOSITORY"] = f"onefold://{SERVER_ADDRESS}/web"

    def backup(self, tree):
        return [shutil.which(self.binary), "backup", tree]

    def restore(self, target):
        return [shutil.which(self.binary), "restore", "latest", "-t", target]


class Restic(Program):
    binary = "restic"

    @classmethod
    def is_found(cls):
        return super().is_found() and shutil.which("rest-server") is not None

    @classmethod
    def version(cls):
        return output(["restic", "version"]).strip() + ", " + output(["rest-server", "--version"]).strip()

    def start(self):
        self.env |= {"RESTIC_PASSWORD": "bench", "RESTIC_REPOSITORY": f"rest:http://{SERVER_ADDRESS}:8000/"}
        self.serve(["rest-server", "--path", self.folder / "server", "--no-auth"])
        output(self.net.of_client(["restic", "-q", "init"]), self.env)

    def backup(self, tree):
        return ["restic", "-q", "backup", tree]

    def restore(self, target):
        return ["restic", "-q", "restore", "latest", "--target", target]


class Kopia(Program):
    binary = "kopia"

    @classmethod
    def version(cls):
        return output(["kopia", "--version"]).strip()

    def start(self):
        self.env |= {"KOPIA_PASSWORD": "bench", "KOPIA_CHECK_FOR_UPDATES": "false"}
        config, client = self.folder / "server.config", self.folder / "client.config"
        server = ["kopia", "--config-file", config, "--log-dir", self.folder / "log"]
        storage = self.folder / "server"
        output([*server, "repository", "create", "filesystem", "--path", storage,
                "--override-username", "root", "--override-hostname", "host"], self.env)
        output([*server, "server", "user", "add", "root@host", "--user-password", "bench"], self.env)
        certificate, key = self.folder / "cert", self.folder / "key"
        self.serve([*server, "server", "start", "--address", f"{SERVER_ADDRESS}:51515", "--tls-generate-cert",
                    "--tls-cert-file", certificate, "--tls-key-file", key, "--server-control-password", "x",
                    "--server-username", "x", "--server-password", "x"])
        time.sleep(3)
        pem = output(["openssl", "x509", "-in", certificate, "-noout", "-fingerprint", "-sha256"])
        fingerprint = pem.split("=")[1].strip().replace(":", "").lower()
        self.client = ["kopia", "--no-progress", "--config-file", client, "--log-dir", self.folder / "log"]
        output(self.net.of_client([*self.client, "repository", "connect", "server",
                                   "--url", f"https://{SERVER_ADDRESS}:51515",
                                   "--server-cert-fingerprint", fingerprint,
                                   "--override-username", "root", "--override-hostname", "host",
                                   "--cache-directory", self.folder / "cache"]), self.env)

    def backup(self, tree):
        self.tree = tree
        return [*self.client, "snapshot", "create", tree]

    def restore(self, target):
        return [*self.client, "snapshot", "restore", self.tree, target]

    def restored(self, target, tree):
        return target


class OverSsh(Program):
    """A program whose client runs itself on the server, by ssh."""

    @classmethod
    def is_found(cls):
        return super().is_found() and Path("/usr/sbin/sshd").exists()

    def serve_ssh(self):
        for name in ("host", "user"):
            output(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name])
        shutil.copy(self.folder / "user.pub", self.folder / "authorized")
        Path("/run/sshd").mkdir(exist_ok=True)
        self.folder.chmod(0o700)
        settings = [f"HostKey={self.folder}/host", f"AuthorizedKeysFile={self.folder}/authorized",
                    f"ListenAddress={SERVER_ADDRESS}:2222", "StrictModes=no", "UsePAM=no",
                    f"PidFile={self.folder}/sshd.pid", "PermitRootLogin=yes",
                    f"SetEnv=PATH={os.environ['PATH']}"]
        options = [part for setting in settings for part in ("-o", setting)]
        self.serve(["/usr/sbin/sshd", "-D", "-f", "/dev/null", *options])
        self.ssh = (f"ssh -p 2222 -i {self.folder}/user -o StrictHostKeyChecking=no "
                    "-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR")


class Borg(OverSsh):
    binary = "borg"

    @classmethod
    def version(cls):
        return output(["borg", "--version"]).strip()

    def start(self):
        self.serve_ssh()
        self.env |= {"BORG_PASSPHRASE": "bench", "BORG_RSH": self.ssh, "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
                     "BORG_REMOTE_PATH": shutil.which("borg"), "BORG_BASE_DIR": str(self.folder / "borg")}
        (self.folder / "borg").mkdir()
        self.store = f"ssh://root@{SERVER_ADDRESS}:2222{self.folder}/server"
        output(self.net.of_client(["borg", "init", "--encryption", "repokey", self.store]), self.env)
        self.number = 0

    def backup(self, tree):
        self.number += 1
        return ["borg", "create", f"{self.store}::{self.number}", tree]

    def restore(self, target):
        target.mkdir()
        return ["env", "-C", target, "borg", "extract", f"{self.store}::{self.number}"]


class Bupstash(OverSsh):
    binary = "bupstash"

    @classmethod
    def version(cls):
        return output(["bupstash", "version"]).strip()

    def start(self):
        self.serve_ssh()
        key = self.folder / "bupstash.key"
        output(["bupstash", "new-key", "-o", key])
        program, store = shutil.which("bupstash"), self.folder / "server"
        output(["bupstash", "init", "-r", store])
        self.env |= {
            "BUPSTASH_REPOSITORY_COMMAND":
                f"{self.ssh} root@{SERVER_ADDRESS} {program} serve {store}",
            "BUPSTASH_KEY": str(key),
            "BUPSTASH_SEND_LOG": str(self.folder / "sendlog"),
            "BUPSTASH_QUERY_CACHE": str(self.folder / "qcache"),
        }
        self.number = 0

    def backup(self, tree):
        self.number += 1
        return ["bupstash", "put", "--quiet", f"number={self.number}", tree]

    def restore(self, target):
        target.mkdir()
        return ["bupstash", "restore", "--quiet", "--ownership", "--xattrs", "--into", target,
                f"number={self.number}"]

    def restored(self, target, tree):
        return target


ALL = {"onefold": Onefold, "restic": Restic, "kopia": Kopia, "borg": Borg, "bupstash": Bupstash}
