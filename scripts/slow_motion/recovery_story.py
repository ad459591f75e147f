"""A broker appends, flushes and crashes, and recovers its log, as the model of the disk runs the shipped log."""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.lab import paper
from kafka2011.message.message_set import scan
from scripts.slow_motion.recording import Branch, Frame, Panels, Story
from scripts.slow_motion.tracing import innermost
from tests.models.log.disk import NAMES_AND_SIZES, NOTHING, Directory, File, Survival
from tests.models.log.file_layer import FileLayer
from tests.models.log.life import LOG_DIR, Life
from tests.models.log.scenarios import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from kafka2011.lab.paper import Sentence
    from scripts.slow_motion.recording import Place
    from tests.models.log.explorer import Ending
    from tests.models.log.life import Crash

TOPIC = "a"
_SHIPPED = "kafka2011/log"
_LAYER = FileLayer.open.__code__.co_filename
_BROKER = "broker"
_SETTINGS = replace(SMALL, max_segment_bytes=100, flush_interval=3)
_CALLS = {
    "create": "creates {}",
    "mkdir": "makes the directory {}",
    "write": "writes to {}: it is in the page cache",
    "fsync": "fsyncs {}: what was written is on the disk now",
    "ftruncate": "cuts {}",
    "rename": "gives {} another name",
    "fsync of a directory": "fsyncs {}: the names in it are on the disk now",
    "unlink": "removes {}",
    "unlink of nothing": "would remove {}, which is not there",
    "rmdir": "removes the directory {}",
    "sendfile": "copies to {}",
}
_PAPER = {"write": paper.APPEND, "fsync": paper.FLUSH, "ftruncate": paper.RECOVERY, "create": paper.SEGMENTS}


class Recorder:
    """Takes a broker's log from one change of the disk to the next, and keeps a frame of each."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.frames: list[Frame] = []
        self.crashes: list[Crash] = []
        self._due: tuple[str, Sentence, Place | None] | None = None
        life.layer.on_change = self._before_change

    def do(self, text: str, act: Callable[[], None], sentence: Sentence = paper.NONE) -> None:
        """Do one thing: a frame for each change that it makes to the disk, and one for what there is then."""
        act()
        self._keep_due()
        self.note(text, sentence)

    def note(self, text: str, sentence: Sentence = paper.NONE) -> None:
        """Keep a frame of how it is now."""
        self._keep(Frame("", text, self.panels(), None, sentence))

    def _keep(self, frame: Frame) -> None:
        self.frames.append(frame)
        self.crashes.append(self.life.crash_now())

    def _before_change(self) -> None:
        """Keep a frame of the change before this one, which has been made; note this one."""
        self._keep_due()
        layer_frame = sys._getframe()
        while layer_frame.f_code.co_filename != _LAYER or layer_frame.f_code.co_name in {"_begin", "_check"}:
            assert layer_frame.f_back is not None
            layer_frame = layer_frame.f_back
        call, name = self.life.layer.calls[-1], self._name(layer_frame)
        is_directory = call == "fsync" and any(
            name == each and isinstance(self.life.layer.disk.nodes[number], Directory) for each, number in self._named()
        )
        is_missing = call == "unlink" and all(name != each for each, _ in self._named())
        call = "fsync of a directory" if is_directory else "unlink of nothing" if is_missing else call
        text = _CALLS[call].format(name)
        self._due = text, _PAPER.get(call, paper.NONE), innermost(layer_frame, _SHIPPED)

    def _keep_due(self) -> None:
        if self._due is not None:
            text, sentence, place = self._due
            self._due = None
            self._keep(Frame(_BROKER, text, self.panels(), place, sentence))

    def _name(self, frame: FrameType) -> str:
        path = frame.f_locals.get("path")
        if path is None or isinstance(path, int):
            number = self.life.layer._numbers.get(frame.f_locals.get("fd", frame.f_locals.get("out_fd", -1)))
            return next((name for name, each in self._named() if each == number), "a file")
        names = self.life.layer._names(path) or ()
        return _shown("/".join(names))

    def _named(self) -> list[tuple[str, int]]:
        """Return every file and directory of log.dir by its name."""
        return self._below(lambda directory: directory.cached())

    def _below(self, names: Callable[[Directory], dict[str, int]]) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []

        def look(number: int, prefix: str) -> None:
            found.append((_shown(prefix), number))
            node = self.life.layer.disk.nodes[number]
            if isinstance(node, Directory):
                for name, child in sorted(names(node).items()):
                    look(child, f"{prefix}/{name}" if prefix else name)

        look(0, "")
        return found

    # What is shown ---------------------------------------------------------------------------------------------------

    def panels(self) -> Panels:
        """Return the log as readers see it, and its files: in the page cache, and on the disk for certain."""
        log = self.life._logs.get(TOPIC)
        rows = {"process": "runs" if self.life.manager is not None else "does not run"}
        if log is not None:
            rows |= {
                "starts at": str(log.start_offset),
                "can be read up to": str(log.end_offset),
                "next message goes to": str(log.appended_end_offset),
            }
        nodes = self.life.layer.disk.nodes
        cached = {
            name: _content(name, node.cached)
            for name, number in self._named()
            if isinstance(node := nodes[number], File)
        }
        certain = self._below(lambda directory: dict(directory.durable))
        durable = {
            name: _content(name, node.durable) for name, number in certain if isinstance(node := nodes[number], File)
        }
        return {"The log": rows, "Files as processes see them": cached, "Certain to be on the disk": durable}


def _shown(path: str) -> str:
    """Return a path below log.dir, with the topic's name in place of the model's."""
    short = path.removeprefix(LOG_DIR).removeprefix("/") or "log.dir"
    return f"views-0{short[3:]}" if short.startswith(f"{TOPIC}-0") else short


def _content(name: str, data: bytes) -> str:
    if not name.endswith(".kafka"):
        return f"{len(data)} bytes"
    end, starts, position, first = scan(data).end, [], 0, int(Path(name).stem)
    while position < end:
        starts.append(str(first + position))
        position = scan(data, position, 1).end
    text = f"messages at {', '.join(starts)}, up to {first + end}" if starts else "no message"
    what = "bytes of no whole message" if data[end:].strip(b"\0") else "zeros"
    return text + (f"; then {len(data) - end} {what}" if len(data) > end else "")


# The story -----------------------------------------------------------------------------------------------------------


def record() -> Story:
    """Record appends, flushes and a new segment, and what follows a crash after some of these steps."""
    parent = Path(tempfile.mkdtemp())
    try:
        return _record(parent)
    finally:
        shutil.rmtree(parent)


def _record(parent: Path) -> Story:
    life = Life(parent, _SETTINGS)
    recorder = Recorder(life)
    recorder.note("A broker that has never run. It flushes after every third message.")
    recorder.do("The broker runs.", life.start)
    for text, sizes, sentence in _APPENDS:
        recorder.do(text, lambda sizes=sizes: life.append(TOPIC, *sizes), sentence)  # type: ignore[misc]
    recorder.do("The broker was stopped in order.", life.stop)
    story = Story("A recovery", ABOUT, recorder.frames)
    for after, frame in enumerate(recorder.frames):
        if frame.text in _MARKS:
            for title, ending in _ENDINGS.items():
                branch = _crash(recorder, after, title, ending)
                story.branches.append(Branch(after, frame.text.rstrip("."), title, branch))
    life.end()
    return story


def _crash(recorder: Recorder, after: int, title: str, ending: Ending) -> list[Frame]:
    branch = Recorder(recorder.life.after(recorder.crashes[after], ending))
    branch.note(f"{title}.", paper.CRC)
    branch.do("The broker was started again, and has recovered its log.", branch.life.start, paper.RECOVERY)
    branch.do("The log goes on.", lambda: branch.life.append(TOPIC, 7, 7, 7), paper.APPEND)
    branch.life.end()
    return branch.frames


_APPENDS = (
    ("A message was appended. Nobody can read it yet.", (20,), paper.EXPOSED),
    ("A set of two was appended: three messages, so the log was flushed.", (5, 5), paper.FLUSH),
    ("Two more were appended, and are not flushed.", (12, 12), paper.FLUSH),
    ("The segment was full: this message begins another one.", (30,), paper.SEGMENTS),
    ("One more is in the page cache.", (9,), paper.APPEND),
)
"""What is said of each append, the sizes of its payloads, and the paper's sentence."""
_MARKS = {_APPENDS[number][0] for number in (0, 2, 4)}
_ENDINGS: dict[str, Ending] = {
    "The broker is killed with kill -9: the page cache stays": None,
    "Power fails: only what was fsynced is left": NOTHING,
    "Power fails: some sectors of what was written are on the disk": Survival(1, 0.6, 1, 3),
    "Power fails: the file has its size, and zeros in place of what was written": NAMES_AND_SIZES,
}
ABOUT = (
    "One partition of one broker. A step is a change of its disk. What was written is in the page cache at first, and "
    "on the disk for certain once it was fsynced; in between, a power cut may leave any part of it."
)
