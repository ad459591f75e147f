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
        name: {**json.loads((parts / f"{name}.json").read_text(encoding="utf-8")), "who": _WHO[name]}
        for name in STORIES
    }
    pieces = {
        "style": (console / "app.css").read_text(encoding="utf-8") + (parts / "page.css").read_text(encoding="utf-8"),
        # One script has no imports: what the console's page exports stands in it as it is.
        "script": re.sub(r"^export ", "", (console / "dom.js").read_text(encoding="utf-8"), flags=re.MULTILINE)
        + (parts / "page.js").read_text(encoding="utf-8"),
        # Nothing in it may end the element that it stands in.
        "recordings": json.dumps(recordings, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    page = (parts / "page.html").read_text(encoding="utf-8")
    return re.sub(r"/\* (style|script|recordings) \*/", lambda match: pieces[match[1]], page)
