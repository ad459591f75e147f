"""Functional tests of Sarama: a server that answers as Toxiproxy stands for its proxies, which do nothing."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

from proof.gateway_suites.go import GoSuite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proof.gateway_suites.served import Served

SET_UP = "functional_test.go"
EDITS = {
    r'fmt\.Sprintf\("127\.0\.0\.1:%d", 29090\+i\)': 'os.Getenv("SERVED")',
    r"(ReplicationFactor: +)3": r"\g<1>1",
    r"len\(partition\.Isr\) != 3": "len(partition.Isr) != 1",
}
"""Expressions of the tests' set-up, which wants five brokers and three replicas, and what stands for them."""


@dataclass(frozen=True, kw_only=True)
class Sarama(GoSuite):
    """The functional tests with one address and one replica."""

    def run(self, served: Served, output: Path) -> dict[str, str]:
        """Run the tests with proxies that do nothing."""
        files = sorted(self.sources().glob("functional_*_test.go"))
        names = re.findall(r"^func (Test\w+)\(t ", "\n".join(path.read_text("utf-8") for path in files), re.MULTILINE)
        path = self.sources() / SET_UP
        text = path.read_text("utf-8")
        for expression, replacement in EDITS.items():
            text = re.sub(expression, replacement, text)
        path.write_text(text, "utf-8")
        with _proxies() as port:
            told = {"SERVED": served.servers, "TOXIPROXY_ADDR": f"http://127.0.0.1:{port}"}
            return self.run_with(told, output, "-tags=functional", f"-run=^({'|'.join(names)})$")


class _Handler(BaseHTTPRequestHandler):
    """Answers that all is well."""

    def do_GET(self) -> None:
        """Describe a proxy."""
        self._answer(200, {"name": self.path.rpartition("/")[2], "enabled": True})

    def do_POST(self) -> None:
        """Take note of nothing."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(204 if self.path == "/reset" else 200, {})

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self, status: int, answer: dict[str, object]) -> None:
        body = b"" if status == 204 else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def _proxies() -> Iterator[int]:
    """Serve on a free port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
