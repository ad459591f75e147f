"""The page that shows shipped code step by step: its recordings are of this code, and lose nothing."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafka2011.cli.app import cli
from kafka2011.lab.slow_motion_page import STORIES, render
from scripts.slow_motion.__main__ import FOLDER, recorded
from scripts.slow_motion.group_story import divisions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_BYTES = 3_000_000
REGISTRY = "Below /consumers/readers in ZooKeeper"


def story(name: str) -> dict[str, Any]:
    """Return a recording that is shipped."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def lines(name: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Give the main line of a story, and each branch from the beginning on, with what it is."""
    found = story(name)
    yield "main line", found["frames"]
    for branch in found["branches"]:
        where = f"{branch['mark']}: {branch['title']}"
        yield where, [*found["frames"][: branch["after"] + 1], *branch["frames"]]


def at_the_end(frames: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Return all rows after the last frame, by panel."""
    panels: dict[str, dict[str, str]] = {}
    for frame in frames:
        for panel, rows in frame.get("changes", {}).items():
            shown = panels.setdefault(panel, {}) | rows
            panels[panel] = {row: text for row, text in shown.items() if text is not None}
    return panels


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="line numbers within a call differ between Pythons")
@pytest.mark.parametrize("name", STORIES)
def test_a_recording_is_of_this_code(name: str) -> None:
    """`make docs` records it again."""
    assert recorded(name) == (FOLDER / f"{name}.json").read_text(encoding="utf-8"), "make docs"


@pytest.mark.parametrize("name", STORIES)
def test_each_step_names_a_line_of_code_and_the_paper(name: str) -> None:
    """Those lines are in the function that is shown."""
    found = story(name)
    steps = [frame for _, frames in lines(name) for frame in frames]
    for frame in steps:
        if "code" in frame:
            number, marked, *_ = frame["code"]
            assert marked
            assert all(0 <= line < len(found["code"][number]["source"]) for line in marked)
        assert "paper" not in frame or found["paper"][frame["paper"]][0]
    assert sum("code" in frame for frame in steps) > len(steps) / 2
    assert sum("paper" in frame for frame in steps) > len(steps) / 3


def test_whatever_goes_wrong_in_a_group_all_is_read() -> None:
    """At the end each partition has the owner that it should have, and its offset is committed."""
    several = list(lines("group"))
    assert len(several) > 20
    for where, frames in several:
        partitions = at_the_end(frames)["Partitions"]
        for number in range(3):
            assert partitions[f"0-{number}, owner"] == partitions[f"0-{number}, as shipped"] != "none", where
            assert partitions[f"0-{number}, read"].startswith("3 of 3"), where
            assert at_the_end(frames)[REGISTRY][f"offsets/views/0-{number}"] == "33", where


def test_whatever_goes_wrong_with_replicas_what_is_confirmed_is_there() -> None:
    """All three have the same, and all of it can be read."""
    several = list(lines("takeover"))
    assert len(several) > 10
    for where, frames in several:
        panels = at_the_end(frames)
        replicas = [panels[f"Replica {name}"] for name in "abc"]
        assert len({each["log"] for each in replicas}) == 1, where
        assert "m1" in replicas[0]["log"], where
        assert panels["Producer"]["confirmed"] != "none", where
        assert all(each["readable up to"] == each["on disk up to"] for each in replicas), where


def test_whatever_is_left_of_a_disk_what_was_flushed_is_there() -> None:
    """A torn end is cut, and kept beside the log."""
    several = list(lines("recovery"))
    cuts = 0
    for where, frames in several[1:]:
        files = at_the_end(frames)["Certain to be on the disk"]
        assert all("no whole message" not in text and "zeros" not in text for text in files.values()), where
        cuts += any(name.endswith(".cut") for name in files)
        if "appended. Nobody" not in where:
            assert files["views-0/00000000000000000000.kafka"].startswith("messages at 0, 30, 45"), where
    assert cuts >= 3


def test_the_printed_algorithm_leaves_partitions_without_an_owner() -> None:
    """Three partitions and two consumers: one each, and one that nobody has. Shipped, everything has an owner."""
    every = divisions()
    assert every[2][1] == [[0, 0, 1], [0, 1, -1]]
    assert all(-1 not in shipped for row in every for shipped, _ in row)
    assert every[0][2][1] == [-1]  # one partition for three: N is 0
    assert story("group")["also"]["divisions"] == every


def test_the_page_is_one_small_file(tmp_path: Path) -> None:
    """It asks for nothing else, and nothing that was recorded ends its script."""
    file = tmp_path / "slow.html"
    done = CliRunner().invoke(cli, ["lab", "page", str(file)])
    assert (done.exit_code, done.output) == (0, f"wrote {file}: open it in a browser\n")
    page = file.read_text(encoding="utf-8")
    assert page == render()
    assert len(page.encode()) < MOST_BYTES
    assert page.count("</script>") == 2
    assert not re.search(r"""(?:src|href)=["'](?!data:,|#)""", page)
    assert not re.search(r"\bimport\b.* from |^export ", page.split('type="module">')[1], re.MULTILINE)


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    """It is an error of one line."""
    done = CliRunner().invoke(cli, ["lab", "page", str(tmp_path / "none" / "slow.html")])
    assert done.exit_code != 0
    assert "No such file or directory" in str(done.exception)
