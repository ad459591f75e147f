"""The page that shows a rebalance, a recovery and a takeover step by step: one file, without server and network."""

from __future__ import annotations

import json
import re
from importlib.resources import files

STORIES = ("group", "recovery", "takeover")
"""The recordings, in the order of the page: made by `scripts.slow_motion` from the models of the tests."""
_WHO = {"group": "Consumer {}", "recovery": "The broker", "takeover": "Replica {}"}
"""What an actor of a story is called."""


def render() -> str:
    """Return the page as HTML."""
    parts = files("kafka2011.lab") / "slow_motion"
    console = files("kafka2011.ui") / "page"
    recordings = {
        name: {**json.loads((parts / f"{name}.json").read_text("utf-8")), "who": _WHO[name]} for name in STORIES
    }
    pieces = {
        "style": (console / "app.css").read_text("utf-8") + (parts / "page.css").read_text("utf-8"),
        "script": _joined((console / "dom.js").read_text("utf-8"), (parts / "page.js").read_text("utf-8")),
        # Nothing in it may end the element that it stands in.
        "recordings": json.dumps(recordings, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    page = (parts / "page.html").read_text("utf-8")
    return re.sub(r"/\* (style|script|recordings) \*/", lambda match: pieces[match[1]], page)


def _joined(*modules: str) -> str:
    """Return modules as one script, which imports nothing and exports nothing."""
    return re.sub(r"^(export |import .*\n)", "", "\n".join(modules), flags=re.MULTILINE)
