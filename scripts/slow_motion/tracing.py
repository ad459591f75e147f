"""Which lines of shipped code a step executes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from scripts.slow_motion.recording import Place, is_below

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType


class Traced:
    """Notes, in its block, the lines that functions of some folders execute."""

    def __init__(self, *folders: str) -> None:
        self._folders = folders
        self._lines: dict[CodeType, dict[int, None]] = {}

    def __enter__(self) -> Traced:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
        if not is_below(frame.f_code, self._folders):
            return None
        lines = self._lines.setdefault(frame.f_code, {})

        def note(frame: FrameType, event: str, _argument: Any) -> Any:
            if event == "line":
                lines[frame.f_lineno] = None
            return note

        return note

    def place(self, name: str) -> Place:
        """Return the lines that a function has executed, by its name with that of its class. Raises KeyError."""
        for code, lines in self._lines.items():
            if code.co_qualname == name:
                return Place(code, tuple(lines))
        raise KeyError(f"{name} was not executed: {sorted(code.co_qualname for code in self._lines)}")


def innermost(frame: FrameType | None, *folders: str) -> Place | None:
    """Return where the innermost frame of some folders stands, from this one outwards; None if there is none."""
    found = []
    while frame is not None:
        if is_below(frame.f_code, folders) and "<" not in frame.f_code.co_name:
            found.append(frame)
        frame = frame.f_back
    if not found:
        return None
    names = dict.fromkeys(each.f_code.co_qualname for each in reversed(found[1:]))
    return Place(found[0].f_code, (found[0].f_lineno,), tuple(names))
