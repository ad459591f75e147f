"""A real browser, headless, that opens pages and answers what is on them: chromium over its debugging pipe."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM = shutil.which("chromium")

_TIMEOUT_S = 60


class Browser:
    """A context manager; for one page at a time."""

    def __init__(self, profile: Path) -> None:
        self._profile = profile
        self._number = 0
        self._read = b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        theirs, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = [
            *(CHROMIUM or "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *("--remote-debugging-pipe", f"--user-data-dir={self._profile}", "about:blank"),
        ]
        # The browser reads from its descriptor 3 and writes to 4, which these may be: they are moved out of the way.
        moved = f"exec {{in}}<&{theirs} {{out}}>&{theirs_out} {theirs}<&- {theirs_out}>&-"
        shell = ["bash", "-c", f'{moved}; exec "$@" 3<&$in 4>&$out {{in}}<&- {{out}}>&-', "bash", *command]
        self._process = subprocess.Popen(
            shell, pass_fds=(theirs, theirs_out), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs)
        os.close(theirs_out)
        [target] = [each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.call("Browser.close")
            self._process.wait(_TIMEOUT_S)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._in)
            os.close(self._out)

    def open(self, path: Path | str, width: int = 1000, height: int = 1400) -> None:
        """Open a file or an address, and wait until it is loaded with all its pictures."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.events.clear()
        self.ask("Page.navigate", url=path if isinstance(path, str) else path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression on the page."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def picture(self, path: Path) -> None:
        """Write the whole page, however long, to a file: PNG."""
        found = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def addresses(self) -> list[str]:
        """Return all addresses that the page asked for."""
        requests = [event["params"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [each["request"]["url"] for each in requests]

    def requested(self) -> set[str]:
        """Return the schemes of all addresses that the page asked for."""
        return {each.partition(":")[0] for each in self.addresses()}

    def complaints(self) -> list[str]:
        """Return what the browser had to say of the page, and what the page failed with."""
        found = [event["params"]["entry"]["text"] for event in self.events if event["method"] == "Log.entryAdded"]
        return found + [str(event["params"]) for event in self.events if event["method"] == "Runtime.exceptionThrown"]

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the page."""
        return self.call(method, sessionId=self._session, **parameters)

    def call(self, method: str, sessionId: str = "", **parameters: Any) -> dict[str, Any]:  # noqa: N803 (its name)
        """Call a method, and return its result; what else arrives meanwhile is in `events`."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        if sessionId:
            request["sessionId"] = sessionId
        os.write(self._out, json.dumps(request).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)

    def _receive(self) -> dict[str, Any]:
        deadline_s = time.monotonic() + _TIMEOUT_S
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline_s - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._in, 1 << 20)
            assert data, "the browser has ended"
            self._read += data
        message, _, self._read = self._read.partition(b"\0")
        return dict(json.loads(message))
