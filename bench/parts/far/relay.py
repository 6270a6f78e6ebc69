"""A relay in front of an object store: it delays each direction, and counts requests.

    relay.py PORT MILLISECONDS [opaque]

Listens on a port of its own, which it prints. A line on standard input ends a phase: it prints the
counts of the phase as one line of JSON: requests by method, lists among the GETs, bytes both ways.
With `opaque` the bytes are TLS, and no requests are counted.
"""

import asyncio
import json
import re
import sys

TARGET, TRIP = int(sys.argv[1]), float(sys.argv[2]) / 1000
IS_OPAQUE = sys.argv[3:] == ["opaque"]
CHUNK = 256 << 10
counts = {}


def add(what, number=1):
    counts[what] = counts.get(what, 0) + number


class Requests:
    """Counts the requests of one connection from its bytes."""

    def __init__(self):
        self.head, self.body, self.chunked = b"", 0, False

    def feed(self, data):
        while data:
            if self.body:
                skipped = min(self.body, len(data))
                self.body -= skipped
                data = data[skipped:]
                continue
            self.head += data
            data = b""
            if self.chunked:
                end = self.head.find(b"0\r\n\r\n")
                if end < 0:
                    self.head = self.head[-8:]
                    continue
                data, self.head, self.chunked = self.head[end + 5 :], b"", False
                continue
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                continue
            head, data, self.head = self.head[:end], self.head[end + 4 :], b""
            self.count(head.decode("latin-1"))

    def count(self, head):
        method, path = head.split(" ", 2)[:2]
        if method == "GET" and re.search(r"[?&](list-type|prefix|delimiter)=", path):
            method = "LIST"
        elif method == "POST" and "delete" in path:
            method = "DELETE MANY"
        add(method)
        length = re.search(r"(?im)^content-length: *(\d+)", head)
        self.body = int(length[1]) if length else 0
        self.chunked = bool(re.search(r"(?im)^transfer-encoding: *chunked", head))


async def pump(reader, writer, delay, what, requests=None):
    """Sends on what was read, each piece after the delay. Reading goes on meanwhile."""
    loop = asyncio.get_running_loop()
    queue = asyncio.Queue(64)

    async def send():
        try:
            while (item := await queue.get()) is not None:
                at, data = item
                wait = at - loop.time()
                if wait > 0:
                    await asyncio.sleep(wait)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    sender = loop.create_task(send())
    try:
        while data := await reader.read(CHUNK):
            add(what, len(data))
            if requests:
                requests.feed(data)
            put = loop.create_task(queue.put((loop.time() + delay, data)))
            await asyncio.wait({put, sender}, return_when=asyncio.FIRST_COMPLETED)
            if sender.done():
                put.cancel()
                return
    except OSError:
        pass
    if not sender.done():
        await queue.put(None)
    await sender


async def serve(reader, writer):
    add("connections")
    # A connection takes a round trip, too.
    await asyncio.sleep(TRIP)
    try:
        there, back = await asyncio.open_connection("127.0.0.1", TARGET)
    except OSError:
        writer.close()
        return
    await asyncio.gather(
        pump(reader, back, TRIP / 2, "sent_bytes", None if IS_OPAQUE else Requests()),
        pump(there, writer, TRIP / 2, "received_bytes"),
    )


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while await lines.readline():
        print(json.dumps(counts), flush=True)
        counts.clear()


asyncio.run(main())
