"""The load of one kind of file and one distribution of changes.

Of files, all figures are measured. Of images, writes and synthetics of changed generations.
"""

import shutil

import pieces
from programs import LAB, ONEFOLD, Client, Recorder, Server, copy, make_server, output, replay

BLOCK_KIB = 8
LAST = 41
# The generations that are stored between the low and the high one.
BETWEEN = [5, 10, 15, 20, 25, 30, 35, 40]


class Load:
    """Backs up all lineages, generation by generation, and replays what is measured."""

    def __init__(self, args, work, kind, clusters, note):
        self.args, self.work, self.kind, self.clusters = args, work, kind, clusters
        self.note = note
        self.lineages = range(1, args.lineages + 1)
        # The name of the stream in its series, which must stay the same.
        self.file = work / "stream"
        self.state = work / "server"

    def measure(self):
        make_server(self.state)
        self.step("gen-0", 0, None)
        self.step("low", 1, 0)
        with Server(self.state) as server:
            place = f"unix://{server.socket}/web"
            for lineage in self.lineages:
                for number in BETWEEN:
                    self.generate(lineage, number)
                    self.back_up(Client(), place, lineage)
        self.step("high", LAST, BETWEEN[-1])

    def step(self, generation, number, parent):
        """Backs up a generation of each lineage, and measures writes, synthetics and reads of it."""
        before = copy(self.state, self.work / "before")
        with Server(self.state) as server:
            files = self.record(server, generation, "write", number, self.back_up)
        if self.is_measured(generation):
            self.writes(before, generation, "write", files)
        self.remove(files)
        if parent is not None:
            other = copy(before, self.work / "synthetic")
            synthesize = lambda *of: self.synthesize(parent, number, *of)
            with Server(other) as server:
                files = self.record(server, generation, "synthetic", number, synthesize)
            shutil.rmtree(other)
            self.writes(before, generation, "synthetic", files)
            self.remove(files)
        shutil.rmtree(before)
        if self.kind == "files":
            self.reads(generation)

    def is_measured(self, generation):
        return self.kind == "files" or generation != "gen-0"

    def reads(self, generation):
        with Server(self.state) as server:
            files = self.record(server, generation, "read", None, self.dump)
            for streams in self.args.streams:
                for _ in range(self.args.runs):
                    self.row(generation, "read", streams, replay(files, server, streams))
        self.remove(files)

    def writes(self, before, generation, what, files):
        """Replays backups to a copy of the store as it was before them."""
        for streams in self.args.streams:
            for _ in range(self.args.runs):
                folder = copy(before, self.work / "replayed")
                with Server(folder) as server:
                    self.row(generation, what, streams, replay(files, server, streams))
                shutil.rmtree(folder)

    def row(self, generation, what, streams, done):
        row = {"kind": self.kind, "clusters": self.clusters, "generation": generation, "what": what}
        names = ["seconds", "bytes", "bytes_sent", "bytes_received", "server_cpu"]
        self.note({**row, "streams": streams, **{name: done[name] for name in names}})

    def record(self, server, generation, what, number, run):
        """Records a client of each lineage. Returns the recordings."""
        files, client = [], Client()
        before = server.cpu()
        for lineage in self.lineages:
            if number is not None:
                self.generate(lineage, number)
            file = self.work / f"{what}-{lineage:02}"
            with Recorder(server, file) as recorder:
                run(client, recorder.place, lineage)
            files.append(file)
        self.note({
            "kind": self.kind, "clusters": self.clusters, "generation": generation,
            "what": f"{what} by a client", "client_cpu": round(client.cpu, 3),
            "server_cpu": round(server.cpu() - before, 3),
            "bytes": self.args.lineages * (self.args.mib << 20),
        })
        return files

    def generate(self, lineage, number):
        """Writes a generation of a lineage to the stream's file."""
        folder = self.work / "generated"
        self.generator(lineage, [number], "--files", folder)
        made = list(folder.iterdir())
        made[0].replace(self.file)
        shutil.rmtree(folder)

    def generator(self, lineage, numbers, *to):
        blocks = ["--block-bytes", BLOCK_KIB << 10] if self.kind == "images" else []
        output([LAB, "-q", "generate", "lineages", "--lineages", 1, "--seed", lineage,
                "--size", f"{self.args.mib}M", "--generations", LAST, "--clusters", self.clusters,
                "--only", ",".join(map(str, numbers)), *blocks, *to])

    def back_up(self, client, place, lineage):
        command = [ONEFOLD, "-r", place, "--json", "-q", "backup", "-H", f"host-{lineage}"]
        if self.kind == "images":
            client.run([*command, "--image-kib", BLOCK_KIB, self.file])
        else:
            with open(self.file, "rb") as stream:
                client.run([*command, "--stdin"], stdin=stream)

    def synthesize(self, parent, number, client, place, lineage):
        trace, listed = self.work / "trace", self.work / "pieces"
        self.generator(lineage, [parent, number], "--trace", trace)
        older, newer = pieces.backups(trace)
        trace.unlink()
        listed.write_text("\n".join(pieces.of(older, newer)))
        fixed = ["--image-kib", BLOCK_KIB, "--name", self.file] if self.kind == "images" else []
        client.run([LAB, "--json", "-q", "synthesize", "-r", place, "-H", f"host-{lineage}",
                    "--pieces", listed, *fixed, self.file])

    @staticmethod
    def dump(client, place, lineage):
        client.run([ONEFOLD, "-r", place, "-q", "dump", "latest", "-H", f"host-{lineage}"])

    @staticmethod
    def remove(files):
        for file in files:
            file.unlink()
