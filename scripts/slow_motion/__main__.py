"""`python -m scripts.slow_motion`: records all stories again, which a test compares with those that are shipped."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from kafka2011.lab.slow_motion_page import STORIES
from scripts.slow_motion import group_story, recovery_story, takeover_story
from scripts.slow_motion.recording import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from scripts.slow_motion.recording import Story

FOLDER = ROOT / "kafka2011" / "lab" / "slow_motion"
_RECORD: dict[str, Callable[[], Story]] = dict(
    zip(STORIES, (group_story.record, recovery_story.record, takeover_story.record), strict=True)
)


def recorded(name: str) -> str:
    """Record a story, and return its file's text: a line for each frame."""
    logging.disable()
    try:
        document = _RECORD[name]().document()
    finally:
        logging.disable(logging.NOTSET)
    return _text(document) + "\n"


def _text(value: object, depth: int = 0) -> str:
    """Return JSON with frames, branches and functions on lines of their own, so that a change of one is a small one."""
    if depth < _DEPTH and isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return "[\n" + ",\n".join(_text(each, depth + 1) for each in value) + "\n]"
    if depth < _DEPTH and isinstance(value, dict) and any(isinstance(each, list | dict) for each in value.values()):
        return "{\n" + ",\n".join(f"{json.dumps(key)}: {_text(each, depth + 1)}" for key, each in value.items()) + "\n}"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_DEPTH = 3


def main() -> None:
    """Write all."""
    FOLDER.mkdir(exist_ok=True)
    for name in STORIES:
        (FOLDER / f"{name}.json").write_text(recorded(name), encoding="utf-8")


if __name__ == "__main__":
    main()
