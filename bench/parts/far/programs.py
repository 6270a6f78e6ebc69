"""How each program is told to use a prefix of a bucket."""

import json
import os
import re
import shutil
import subprocess

KEY, SECRET, BUCKET, REGION = "farkey", "farsecretfarsecret", "far", "us-east-1"


class Program:
    """A program with a store below `prefix`, and a folder for its cache and settings."""

    name = ""
    #: Whether a prune leaves unused what it leaves by default, or nothing.
    prunes_as_usual = False
    #: The file of the authority whose certificate the server has, if it speaks TLS.
    authority = None

    def __init__(self, folder, port):
        self.folder, self.port = folder, port
        folder.mkdir(parents=True)
        self.prefix = f"{self.name}-{folder.parent.name}"
        home = folder / "home"
        home.mkdir()
        self.env = dict(
            os.environ,
            HOME=str(home),
            AWS_ACCESS_KEY_ID=KEY,
            AWS_SECRET_ACCESS_KEY=SECRET,
            AWS_DEFAULT_REGION=REGION,
            AWS_REGION=REGION,
            XDG_CACHE_HOME=str(folder / "cache"),
            NO_PROXY="127.0.0.1",
            no_proxy="127.0.0.1",
        )
        if self.authority:
            self.env["SSL_CERT_FILE"] = str(self.authority)

    @classmethod
    def path(cls):
        return shutil.which(cls.name)

    @classmethod
    def version(cls):
        told = subprocess.run([cls.path(), "--version"], capture_output=True, text=True, check=True)
        return re.sub(r" build: .*", "", (told.stdout or told.stderr).splitlines()[0])

    def run(self, *words, output=False):
        out = subprocess.PIPE if output else subprocess.DEVNULL
        done = subprocess.run(
            [self.path(), *map(str, words)], env=self.env, stdout=out, stderr=subprocess.PIPE, text=True
        )
        if done.returncode:
            raise SystemExit(f"{self.name} {words[0]} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    def host(self):
        return f"http{'s' if self.authority else ''}://127.0.0.1:{self.port}"

    def url(self):
        return f"s3:{self.host()}/{BUCKET}/{self.prefix}"

    def all_unused(self, *options):
        """These options, which make a prune free all that is unused, unless it prunes as usual."""
        return () if self.prunes_as_usual else options

    def restored(self, target, source):
        """Where a restore puts the source."""
        return target / str(source).lstrip("/")


class Onefold(Program):
    name = "onefold"

    def __init__(self, folder, port):
        super().__init__(folder, port)
        self.env.update(ONEFOLD_PASSWORD="bench", ONEFOLD_REPOSITORY=self.url())

    @classmethod
    def path(cls):
        return os.environ.get("ONEFOLD") or shutil.which("onefold")

    def new(self):
        self.run("init")

    def backup(self, source):
        self.run("backup", "-q", source)

    def restore(self, source, target):
        self.run("restore", "latest", "--target", target)

    def prune(self):
        self.run("forget", "--keep-last", 1, "--prune", *self.all_unused("--max-unused", 0))


class OnefoldWithout(Onefold):
    """Without its cache."""

    name = "onefold-no-cache"

    def run(self, *words, output=False):
        return super().run(*words, "--no-cache", output=output)


class Restic(Program):
    name = "restic"

    def __init__(self, folder, port):
        super().__init__(folder, port)
        self.env.update(RESTIC_PASSWORD="bench", RESTIC_REPOSITORY=self.url(), RESTIC_PROGRESS_FPS="0")

    @classmethod
    def version(cls):
        return subprocess.run([cls.path(), "version"], capture_output=True, text=True).stdout.strip()

    def new(self):
        self.run("init")

    def backup(self, source):
        self.run("-q", "backup", source)

    def restore(self, source, target):
        self.run("-q", "restore", "latest", "--target", target)

    def prune(self):
        self.run("-q", "forget", "--keep-last", 1, "--prune", *self.all_unused("--max-unused", 0))


class Rustic(Program):
    name = "rustic"

    def __init__(self, folder, port):
        super().__init__(folder, port)
        profile = folder / "home" / "bench.toml"
        profile.write_text(
            '[repository]\nrepository = "opendal:s3"\npassword = "bench"\n\n[repository.options]\n'
            f'bucket = "{BUCKET}"\nroot = "/{self.prefix}"\nendpoint = "{self.host()}"\n'
            f'region = "{REGION}"\naccess_key_id = "{KEY}"\nsecret_access_key = "{SECRET}"\n'
        )
        self.words = ["--log-level", "error", "--no-progress", "-P", str(profile.with_suffix(""))]

    def run(self, *words, output=False):
        return super().run(*self.words, *words, output=output)

    def new(self):
        self.run("init")

    def backup(self, source):
        self.run("backup", source)

    def restore(self, source, target):
        self.run("restore", f"latest:{source}", self.restored(target, source))

    def prune(self):
        every = self.all_unused("--max-repack", "unlimited", "--max-unused", "0B")
        self.run("forget", "--keep-last", 1, "--prune", "--instant-delete", *every)


class Kopia(Program):
    name = "kopia"

    def __init__(self, folder, port):
        super().__init__(folder, port)
        self.env.update(
            KOPIA_PASSWORD="bench",
            KOPIA_CHECK_FOR_UPDATES="false",
            KOPIA_CONFIG_PATH=str(folder / "kopia.config"),
        )

    def run(self, *words, output=False):
        log = f"--log-dir={self.folder / 'log'}"
        return super().run("--no-progress", "--log-level=error", log, *words, output=output)

    def new(self):
        self.run(
            "repository", "create", "s3", f"--bucket={BUCKET}", f"--prefix={self.prefix}/",
            f"--endpoint=127.0.0.1:{self.port}", f"--access-key={KEY}",
            f"--root-ca-pem-path={self.authority}" if self.authority else "--disable-tls",
            f"--secret-access-key={SECRET}", f"--region={REGION}",
            f"--cache-directory={self.folder / 'cache'}",
        )
        self.run("policy", "set", "--global", "--compression=zstd", "--keep-latest", 100)

    def backup(self, source):
        self.run("snapshot", "create", source)

    def ids(self):
        told = self.run("snapshot", "list", "--all", "--show-identical", "--json", output=True)
        return [one["id"] for one in sorted(json.loads(told), key=lambda one: one["startTime"])]

    def restore(self, source, target):
        to = self.restored(target, source)
        to.parent.mkdir(parents=True, exist_ok=True)
        self.run("restore", self.ids()[-1], to)

    def prune(self):
        self.run("snapshot", "delete", "--delete", *self.ids()[:-1])
        self.run("maintenance", "run", "--full", "--safety=none")


ALL = {one.name: one for one in (Onefold, OnefoldWithout, Restic, Rustic, Kopia)}
