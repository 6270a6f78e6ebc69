"""Google Cloud Storage or Azure Blob Storage in memory, for tests. Prints its port.

It has what a storage uses of them: create, read, ranges, list, delete, each with the conditions,
headers and errors of the service's documentation. It ends with its standard input. Arguments:
`google` or `azure`, and `overwrites` for a service that ignores conditions.
"""

import email.utils
import os
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

IS_AZURE = sys.argv[1] == "azure"
OVERWRITES = "overwrites" in sys.argv
BUCKET = "bucket"
ACCOUNT = "account"
META = "x-ms-meta-" if IS_AZURE else "x-goog-meta-"
CLASS = "x-ms-access-tier" if IS_AZURE else "x-goog-storage-class"
PAGE = 1000
LOCK = threading.Lock()
OBJECTS = {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code):
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"
        self.answer(status, body.encode(), [("x-ms-error-code", code)])

    def place(self):
        """The object's name, or None if the bucket is meant; after an answer False."""
        url = urlsplit(self.path)
        self.query = parse_qs(url.query, keep_blank_values=True)
        parts = unquote(url.path).lstrip("/")
        if IS_AZURE:
            account, _, parts = parts.partition("/")
            if not self.headers.get("Authorization", "").startswith(f"SharedKey {ACCOUNT}:"):
                self.refuse(403, "AuthenticationFailed")
                return False
            assert account == ACCOUNT, self.path
        bucket, _, name = parts.partition("/")
        if bucket != BUCKET:
            self.refuse(404, "ContainerNotFound" if IS_AZURE else "NoSuchBucket")
            return False
        return name or None

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        name = self.place()
        if name is False:
            return
        if IS_AZURE:
            is_create = self.headers.get("If-None-Match") == "*"
            assert self.headers["x-ms-blob-type"] == "BlockBlob"
        else:
            is_create = self.headers.get("x-goog-if-generation-match") == "0"
        kept = [(key, value) for key, value in self.headers.items() if key.lower().startswith(META)]
        for key, _ in kept:
            # Azure takes words.
            if IS_AZURE and not re.fullmatch(r"[a-z_][a-z0-9_]*", key.lower()[len(META) :]):
                return self.refuse(400, "InvalidMetadata")
        with LOCK:
            if is_create and name in OBJECTS and not OVERWRITES:
                if IS_AZURE:
                    return self.refuse(409, "BlobAlreadyExists")
                return self.refuse(412, "PreconditionFailed")
            tag = f'"{len(OBJECTS)}-{time.time_ns()}"'
            kind = self.headers.get(CLASS, "")
            OBJECTS[name] = (body, email.utils.formatdate(usegmt=True), tag, kept, kind)
        self.answer(201 if IS_AZURE else 200, b"", [("ETag", tag), ("x-goog-generation", "1")])

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        name = self.place()
        if name is False:
            return
        if name is None:
            return self.list()
        with LOCK:
            found = OBJECTS.get(name)
        if found is None:
            return self.refuse(404, "BlobNotFound" if IS_AZURE else "NoSuchKey")
        body, at, tag, kept, kind = found
        headers = [("ETag", tag), ("Last-Modified", at), ("x-goog-generation", "1"), *kept]
        headers.append(("x-test-class", kind))
        asked = self.headers.get("x-ms-range") or self.headers.get("Range")
        if asked is None:
            if self.command == "HEAD":
                headers.append(("Content-Length", str(len(body))))
            return self.answer(200, body, headers)
        first, last = re.fullmatch(r"bytes=(\d*)-(\d*)", asked).groups()
        assert first or not IS_AZURE, "Azure has no ranges from the end"
        begin = int(first) if first else max(0, len(body) - int(last))
        end = min(len(body), int(last) + 1) if first and last else len(body)
        if begin >= end:
            return self.refuse(416, "InvalidRange")
        headers.append(("Content-Range", f"bytes {begin}-{end - 1}/{len(body)}"))
        self.answer(206, body[begin:end], headers)

    def list(self):
        one = lambda key: self.query.get(key, [""])[0]
        prefix, delimiter = one("prefix"), one("delimiter")
        after = one("marker") if IS_AZURE else one("continuation-token")
        most = int(one("maxresults") or one("max-keys") or PAGE)
        with LOCK:
            names = sorted(name for name in OBJECTS if name.startswith(prefix))
            rows = []
            for name in names:
                rest = name[len(prefix) :]
                folder = rest.split(delimiter)[0] + delimiter if delimiter and delimiter in rest else None
                if folder and (prefix + folder, None) not in rows:
                    rows.append((prefix + folder, None))
                elif not folder:
                    rows.append((name, OBJECTS[name]))
        rows = [row for row in rows if row[0] > after]
        more = rows[most - 1][0] if len(rows) > most else ""
        out = []
        for name, found in rows[:most]:
            name = escape(name)
            if found is None:
                tag = "BlobPrefix" if IS_AZURE else "CommonPrefixes"
                inner = f"<Name>{name}</Name>" if IS_AZURE else f"<Prefix>{name}</Prefix>"
                out.append(f"<{tag}>{inner}</{tag}>")
                continue
            body, at, etag, _, _ = found
            if IS_AZURE:
                out.append(
                    f"<Blob><Name>{name}</Name><Properties><Last-Modified>{at}</Last-Modified>"
                    f"<Etag>{escape(etag)}</Etag><Content-Length>{len(body)}</Content-Length>"
                    "<Content-Type>x</Content-Type></Properties></Blob>"
                )
            else:
                iso = email.utils.parsedate_to_datetime(at).strftime("%Y-%m-%dT%H:%M:%S.000Z")
                out.append(
                    f"<Contents><Key>{name}</Key><Size>{len(body)}</Size>"
                    f"<LastModified>{iso}</LastModified><ETag>{escape(etag)}</ETag></Contents>"
                )
        rows = "".join(out)
        if IS_AZURE:
            text = f"<EnumerationResults><Blobs>{rows}</Blobs><NextMarker>{escape(more)}</NextMarker></EnumerationResults>"
        else:
            token = f"<NextContinuationToken>{escape(more)}</NextContinuationToken>" if more else ""
            text = f"<ListBucketResult>{rows}{token}</ListBucketResult>"
        self.answer(200, f"<?xml version='1.0' encoding='utf-8'?>{text}".encode())

    def do_DELETE(self):
        name = self.place()
        if name is False:
            return
        with LOCK:
            found = OBJECTS.pop(name, None)
        if found is None:
            return self.refuse(404, "BlobNotFound" if IS_AZURE else "NoSuchKey")
        self.answer(202 if IS_AZURE else 204)

    def do_POST(self):
        """Azure's batch of deletes."""
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.place() is False:
            return
        out = []
        for number, path in enumerate(re.findall(r"^DELETE (\S+) HTTP", text, re.M)):
            parts = unquote(urlsplit(path).path).lstrip("/").split("/")
            name = "/".join(parts[parts.index(BUCKET) + 1 :])
            with LOCK:
                found = OBJECTS.pop(name, None)
            status = "202 Accepted" if found else "404 The specified blob does not exist."
            code = "" if found else "x-ms-error-code: BlobNotFound\r\n"
            out.append(
                f"--batch\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
                f"HTTP/1.1 {status}\r\n{code}x-ms-version: 2018-11-09\r\n\r\n"
            )
        body = ("".join(out) + "--batch--\r\n").encode()
        self.answer(202, body, [("Content-Type", "multipart/mixed; boundary=batch")])


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
server.serve_forever()
