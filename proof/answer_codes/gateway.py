"""A gateway that answers one request with one error code, and is well before and after.

`python -m proof.answer_codes.gateway DIRECTORY gateway --override ...` is `kafka2011 gateway --override ...`. While
DIRECTORY has the file `fault`, the next response that has such a level gets its code: a line of the request's name,
the level and the code. The file then becomes `answered` and holds the request's version. A request whose whole response
has a code is not carried out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.cli.app import main
from kafka2011.gateway.protocol.answer_codes import Codes
from kafka2011.gateway.protocol.fields import Api, in_version
from kafka2011.gateway.protocol.frames import TABLES, write_response
from kafka2011.gateway.requests import dispatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

RESPONSE = "response"
"""The level of what has one code for the whole response."""
_PARTS_OF_RESPONSE = ("coordinators", "groups")
"""The arrays that have that code in newer versions, which ask for several coordinators or groups at once."""
_NUMBERS = ("base_offset", "offset", "timestamp", "leader_id", "committed_offset")
_EMPTY = {"records": b"", "topics": [], **dict.fromkeys(_NUMBERS, -1)}


class Fault(NamedTuple):
    """The code that one response is to carry, at the level of this name: an array's, or `response`."""

    api: Api
    level: str
    code: int

    @classmethod
    def parse(cls, line: str) -> Fault:
        """Read a fault from its line."""
        api, level, code = line.split(" ")
        return cls(Api[api], level, int(code))

    def __str__(self) -> str:
        return f"{self.api.name} {self.level} {self.code}"

    def is_whole(self, version: int) -> bool:
        """Say whether the whole response has a code of its own in this version."""
        return self.level == RESPONSE and any(
            field.name == "error_code" for field in in_version(TABLES[self.api].response, version)
        )


def _elements(body: dict[str, Any], levels: Collection[str]) -> Iterator[dict[str, Any]]:
    for name, value in body.items():
        if isinstance(value, list):
            for each in value:
                if isinstance(each, dict):
                    if name in levels:
                        yield each
                    yield from _elements(each, levels)


def spoil(fault: Fault, version: int, body: dict[str, Any]) -> bool:
    """Put the code into a body; say whether there was a place for it."""
    if fault.is_whole(version):
        body.clear()
        body["error_code"] = fault.code
        return True
    found = [*_elements(body, _PARTS_OF_RESPONSE if fault.level == RESPONSE else (fault.level,))]
    for each in found:
        each.update({name: empty for name, empty in _EMPTY.items() if name in each}, error_code=fault.code)
    return bool(found)


def install(directory: Path) -> None:
    """Make this process such a gateway."""
    waiting, answered = directory / "fault", directory / "answered"

    def answered_with(fault: Fault, version: int) -> None:
        partial = directory / "answered.part"
        partial.write_text(str(version), "utf-8")
        waiting.unlink()
        partial.rename(answered)

    def fault_of(api: Api) -> Fault | None:
        if not waiting.exists():
            return None
        fault = Fault.parse(waiting.read_text("utf-8"))
        return fault if fault.api is api else None

    def write(api: Api, version: int, correlation_id: int, body: dict[str, Any]) -> Any:
        fault = fault_of(api)
        if fault is not None and spoil(fault, version, body):
            answered_with(fault, version)
        return write_response(api, version, correlation_id, body)

    def unless_spoilt(api: Api, handler: Callable[..., Any]) -> Callable[..., Any]:
        def handle(gateway: Any, caller: Any, body: Any) -> Any:
            fault = fault_of(api)
            return {} if fault is not None and fault.is_whole(caller.version) else handler(gateway, caller, body)

        return handle

    def any_code(_codes: Codes, code: int) -> int:
        return code

    setattr(Codes, "__missing__", any_code)  # noqa: B010 - mypy takes no assignment to a method
    setattr(dispatch, "write_response", write)  # noqa: B010
    for api, handler in dispatch.HANDLERS.items():
        dispatch.HANDLERS[api] = unless_spoilt(api, handler)


if __name__ == "__main__":
    install(Path(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
