"""A server that speaks as much of S3 as deltalake and PyArrow ask for, with objects in memory, and with faults.

Signatures are not checked. Conditional writes are, under one lock.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedIOBase


class Object(NamedTuple):
    """What is stored under a key."""

    data: bytes
    modified_s: float

    @property
    def etag(self) -> str:
        return f'"{md5(self.data).hexdigest()}"'


@dataclass
class S3Server:
    """The objects by bucket and key, and what the server does wrong."""

    url: str = ""
    objects: dict[str, Object] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    ignores_conditions: bool = False
    """Take If-None-Match for nothing, as servers did before 2024."""
    loses_answer_to: Callable[[str, str], bool] = lambda method, key: False
    """Do what a request says, and close the connection without an answer."""
    fails: Callable[[str, str], bool] = lambda method, key: False
    """Answer 503 and do nothing."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    clock_s: Callable[[], float] = time.time

    def environment(self) -> dict[str, str]:
        """Return what clients in other processes, and in this one, find it by."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "anything",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def names(self, prefix: str = "") -> list[str]:
        """Return the names of objects, bucket first."""
        with self.lock:
            return sorted(key for key in self.objects if key.startswith(prefix))


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Start a server on a free port, with whatever buckets are asked for."""
    state = S3Server()
    handler = type("Handler", (_Handler,), {"state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    state: S3Server
    protocol_version = "HTTP/1.1"
    timeout = 30
    wbufsize = -1  # or head and body are two packets, and the second waits for a late acknowledgement
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if "list-type" in self._query:
            self._answer_with(self._list)
        else:
            self._answer_with(self._get)

    def do_HEAD(self) -> None:
        self._answer_with(self._get)

    def do_PUT(self) -> None:
        self._answer_with(self._put)

    def do_POST(self) -> None:
        self._answer_with(self._post)

    def do_DELETE(self) -> None:
        self._answer_with(self._delete)

    def handle_expect_100(self) -> bool:
        answered = super().handle_expect_100()
        self.wfile.flush()
        return answered

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    @property
    def _query(self) -> dict[str, str]:
        found = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        return {name: values[0] for name, values in found.items()}

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/")

    def _answer_with(self, work: Callable[[bytes], tuple[int, dict[str, str], bytes]]) -> None:
        body = self._body()
        with self.state.lock:
            self.state.requests.append((self.command, self._key))
            if self.state.fails(self.command, self._key):
                status, headers, answer = _error(503, "SlowDown")
            else:
                status, headers, answer = work(body)
            is_lost = self.state.loses_answer_to(self.command, self._key)
        if is_lost:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in {"Content-Length": str(len(answer)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    def _body(self) -> bytes:
        is_chunked = self.headers.get("Transfer-Encoding") == "chunked"
        sent = _chunks(self.rfile) if is_chunked else self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            return _chunks(BytesIO(sent))
        return sent

    def _get(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        found = self.state.objects.get(self._key)
        if found is None:
            if "/" not in self._key:
                return 200, {}, b""  # every bucket is there
            return _error(404, "NoSuchKey")
        headers = {"ETag": found.etag, "Last-Modified": formatdate(found.modified_s, usegmt=True)}
        if self.command == "HEAD":
            return 200, {**headers, "Content-Length": str(len(found.data))}, b""
        asked = self.headers.get("Range")
        if asked is None:
            return 200, headers, found.data
        first, _, last = asked.removeprefix("bytes=").partition("-")
        if not first:
            start, end = max(0, len(found.data) - int(last)), len(found.data)
        else:
            start, end = int(first), min(len(found.data), int(last) + 1 if last else len(found.data))
        if start >= len(found.data):
            return _error(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(found.data)}"
        return 206, headers, found.data[start:end]

    def _put(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if "partNumber" in self._query:
            parts = self.state.uploads.get(self._query["uploadId"])
            if parts is None:
                return _error(404, "NoSuchUpload")
            parts[int(self._query["partNumber"])] = body
            return 200, {"ETag": Object(body, 0).etag}, b""
        if self._is_refused():
            return _error(412, "PreconditionFailed")
        if source := self.headers.get("x-amz-copy-source"):
            copied = self.state.objects.get(unquote(source).lstrip("/"))
            if copied is None:
                return _error(404, "NoSuchKey")
            self._store(copied.data)
            return _xml(f"<CopyObjectResult><ETag>{escape(copied.etag)}</ETag></CopyObjectResult>")
        return self._store(body)

    def _is_refused(self) -> bool:
        is_conditional = self.headers.get("If-None-Match") == "*" and not self.state.ignores_conditions
        return is_conditional and self._key in self.state.objects

    def _store(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        self.state.objects[self._key] = Object(data, self.state.clock_s())
        return 200, {"ETag": self.state.objects[self._key].etag}, b""

    def _post(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        bucket = self._key.partition("/")[0]
        if "delete" in self._query:
            keys = [each.text or "" for each in ElementTree.fromstring(body).iter() if each.tag.endswith("Key")]
            for key in keys:
                self.state.objects.pop(f"{bucket}/{key}", None)
            deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
            return _xml(f"<DeleteResult>{deleted}</DeleteResult>")
        if "uploads" in self._query:
            name = f"upload-{len(self.state.requests)}"
            self.state.uploads[name] = {}
            key = escape(self._key.partition("/")[2])
            return _xml(
                f"<InitiateMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{key}</Key><UploadId>{name}</UploadId>"
                "</InitiateMultipartUploadResult>"
            )
        if self._is_refused():
            return _error(412, "PreconditionFailed")
        parts = self.state.uploads.pop(self._query["uploadId"], None)
        if parts is None:
            return _error(404, "NoSuchUpload")
        _, headers, _ = self._store(b"".join(parts[number] for number in sorted(parts)))
        etag = escape(headers["ETag"])
        return _xml(f"<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>")

    def _delete(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if "uploadId" in self._query:
            self.state.uploads.pop(self._query["uploadId"], None)
        else:
            self.state.objects.pop(self._key, None)
        return 204, {}, b""

    def _list(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        bucket = self._key.partition("/")[0]
        prefix, delimiter = self._query.get("prefix", ""), self._query.get("delimiter", "")
        after = self._query.get("continuation-token") or self._query.get("start-after", "")
        limit = int(self._query.get("max-keys", "1000"))
        contents, prefixes = [], dict[str, None]()
        for name in sorted(self.state.objects):
            key = name.removeprefix(f"{bucket}/")
            if not name.startswith(f"{bucket}/{prefix}") or key <= after:
                continue
            below, cut, _ = key.removeprefix(prefix).partition(delimiter) if delimiter else (key, "", "")
            if cut:
                prefixes[f"{prefix}{below}{cut}"] = None
            else:
                contents.append(key)
        text = "".join(self._entry(bucket, key) for key in contents[:limit])
        text += "".join(f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in prefixes)
        is_cut = len(contents) > limit
        more = f"<NextContinuationToken>{escape(contents[limit - 1])}</NextContinuationToken>" if is_cut else ""
        return _xml(
            f"<ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{min(len(contents), limit) + len(prefixes)}</KeyCount><MaxKeys>{limit}</MaxKeys>"
            f"<IsTruncated>{str(is_cut).lower()}</IsTruncated>{more}{text}</ListBucketResult>"
        )

    def _entry(self, bucket: str, key: str) -> str:
        found = self.state.objects[f"{bucket}/{key}"]
        modified = datetime.fromtimestamp(found.modified_s, UTC)
        return (
            f"<Contents><Key>{escape(key)}</Key><LastModified>{modified:%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
            f"<ETag>{escape(found.etag)}</ETag><Size>{len(found.data)}</Size></Contents>"
        )


def _chunks(stream: BinaryIO | BufferedIOBase) -> bytes:
    """Read chunks, with what HTTP or S3 says of each, up to the lines behind the last one."""
    found = b""
    while size := int(stream.readline().partition(b";")[0], 16):
        found += stream.read(size)
        stream.readline()
    while stream.readline().strip():
        pass
    return found


def _xml(text: str) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/xml"}, f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()


def _error(status: int, code: str) -> tuple[int, dict[str, str], bytes]:
    answer = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'
    return status, {"Content-Type": "application/xml"}, answer.encode()
