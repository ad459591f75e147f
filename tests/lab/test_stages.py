"""A right solution passes the stages, planted defects do not, and what the pages show is true."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka2011 import lab
from kafka2011.lab.bench import Bench
from kafka2011.lab.errors import LabError, WrongError
from kafka2011.lab.grading import grade, grade_in_order
from kafka2011.lab.model_broker import ModelBroker
from kafka2011.lab.program import StudentProgram
from kafka2011.lab.stages import STAGES, s02_fetch, s03_segments
from kafka2011.lab.starter import LANGUAGES, write_starter
from scripts.words import LONG, count_words
from tests.support.lab_pages import Call, Exchange, examples
from tests.support.students import SOLUTION, Defect, defects, go_program, python_program
from zk.errors import LocalZooKeeperError
from zk.local_zookeeper import LocalZooKeeper

if TYPE_CHECKING:
    from kafka2011.lab.stage import Stage

DEFECTS = defects()
SAMPLE = [defect for stage in STAGES for defect in [d for d in DEFECTS if d.stage == stage][3::12]]
"""Some of each stage; proof/test_lab.py tries all of them."""

NEEDS_ZOOKEEPER = {8, 9, 11}
"""integration/test_lab.py tries these."""

HERE = [stage for stage in STAGES.values() if stage.number not in NEEDS_ZOOKEEPER]


@pytest.fixture(scope="module")
def solution(tmp_path_factory: pytest.TempPathFactory) -> StudentProgram:
    return python_program(tmp_path_factory.mktemp("solution"), SOLUTION)


@pytest.mark.parametrize("stage", HERE, ids=lambda stage: str(stage.number))
def test_a_right_program_passes(solution: StudentProgram, stage: Stage) -> None:
    """Nothing of kafka2011 is in it: what the pages say is enough."""
    assert "kafka2011" not in SOLUTION.split('"""', 2)[2]
    verdict = grade(solution, stage)
    assert verdict.passed, verdict.text()
    assert len(verdict.passed_checks) > 5


@pytest.fixture(scope="module")
def solution_in_go(tmp_path_factory: pytest.TempPathFactory) -> StudentProgram:
    needs_go()
    return go_program(tmp_path_factory.mktemp("go") / "mine")


@pytest.mark.parametrize("stage", HERE, ids=lambda stage: str(stage.number))
def test_a_right_program_in_another_language_passes(solution_in_go: StudentProgram, stage: Stage) -> None:
    """Nothing of Python is assumed."""
    verdict = grade(solution_in_go, stage)
    assert verdict.passed, verdict.text()


@pytest.mark.parametrize("defect", [d for d in SAMPLE if d.stage not in NEEDS_ZOOKEEPER], ids=lambda d: d.name)
def test_a_defect_fails_its_stage(defect: Defect, tmp_path: Path) -> None:
    """With a sentence, and the bytes where there are any."""
    verdict = grade(python_program(tmp_path, defect.plant()), STAGES[defect.stage])
    assert verdict.wrong is not None
    assert verdict.wrong.what.endswith((".", ")", "|")) or "last words" in verdict.wrong.what
    assert f"Stage {defect.stage}, " in verdict.text()


@pytest.mark.parametrize("name", ["a produce request is acknowledged", "a wrong request ends the broker"])
def test_a_defect_that_a_stage_once_missed_fails_it(name: str, tmp_path: Path) -> None:
    """An answer that nobody asked for looks like the one to the barrier behind it."""
    [defect] = [d for d in DEFECTS if d.name == name]
    assert grade(python_program(tmp_path, defect.plant()), STAGES[defect.stage]).wrong is not None


def test_a_program_that_ends_at_a_wrong_request_fails_the_check_of_that_request(tmp_path: Path) -> None:
    """The closed connection alone looks right."""
    [defect] = [d for d in DEFECTS if d.name == "a wrong request ends the broker"]
    verdict = grade(python_program(tmp_path, defect.plant()), STAGES[1])
    assert verdict.check == "A message with a wrong CRC closes the connection"
    assert "does not serve a new one. Your program ended with status 1." in verdict.text()


def test_a_verdict_says_how_the_broker_was_started_what_it_wrote_and_its_files(tmp_path: Path) -> None:
    """The directory itself is deleted."""
    [defect] = [d for d in DEFECTS if d.name == "a segment of exactly the limit is full"]
    talks = defect.plant().replace("        run_broker(", "        print('one\\ntwo', flush=True); run_broker(")
    text = grade(python_program(tmp_path, talks), STAGES[3]).text()
    assert "Your program's last words:\n    one\n    two\n" in text
    assert re.search(r"\nstarted as:\n  .* main\.py broker port=\d+ data=\S+ segment-bytes=\d+\n", text)
    assert re.search(r"\nfiles in data:\n(  .*\n)*  \S+/\d{20}\.kafka \(\d+ bytes\)\n", text)


def test_there_are_enough_defects_and_each_can_be_planted() -> None:
    """They have names of their own, and no two are the same."""
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS)
    assert len({defect.plant() for defect in DEFECTS}) == len(DEFECTS)
    for stage in STAGES:
        assert sum(defect.stage == stage for defect in DEFECTS) >= 7


@pytest.mark.parametrize("stage", HERE, ids=lambda stage: str(stage.number))
def test_the_examples_of_a_page_are_true(solution: StudentProgram, stage: Stage, tmp_path: Path) -> None:
    """Of the solution, and requests also of our own broker."""
    shown = list(examples(stage))
    assert shown
    bench = Bench(solution, tmp_path, time.monotonic() + 60)
    with bench.broker() as broker, ModelBroker(tmp_path, {}) as model:
        if any(isinstance(example, Exchange) for example in shown):
            broker.start()
        for example in shown:
            if isinstance(example, Call):
                bench.compare_output(*example.arguments, stdin=example.stdin, wanted=example.wanted)
            else:
                broker.expect(*example)
                assert model.answer(example.sent) == example.wanted


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: str(stage.number))
def test_pages_are_plain(stage: Stage) -> None:
    """Short sentences, short lines, and a page that can be read at one sitting."""
    page = stage.page()
    assert page.startswith(f"STAGE {stage.number}: {stage.title.upper()}\n")
    assert len(page.splitlines()) < 110
    assert max(map(len, page.splitlines())) <= 120
    text = " ".join(line if line and not line.startswith("    ") else "." for line in page.splitlines())
    text = text.replace("  - ", ". ")
    for sentence in re.split(r"(?<=[.:?])\s", text):
        assert count_words(sentence) <= LONG, sentence


REPLAY = """
import socket, struct, sys, threading
from pathlib import Path
role, *words = sys.argv[1:]
settings = dict(word.split("=", 1) for word in words)
recorded = Path(sys.argv[0]).parent / "recorded"
answers = {p.read_bytes(): p.with_name(p.name.replace(".request.", ".response.")).read_bytes()
           for p in recorded.glob("*.request.bin")}
answers[bytes.fromhex("0000000400020000")] = bytes.fromhex("000000020000")
log = Path(settings["data"], "cap-0")
log.mkdir()
(log / f"{0:020}.kafka").write_bytes((recorded / "segment.kafka").read_bytes())
def serve(connection):
    stream = connection.makefile("rb")
    while len(head := stream.read(4)) == 4:
        request = head + stream.read(struct.unpack(">i", head)[0])
        answer = answers[request]
        if not answer and request[5] not in (0, 3):
            break
        connection.sendall(answer)
    stream.close()
    connection.close()
listener = socket.create_server(("127.0.0.1", int(settings["port"])))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],)).start()
"""


def test_the_recorded_answers_of_kafka_07_pass(tmp_path: Path) -> None:
    """A program that knows only what a broker of 0.7.2 has answered passes every check that uses these requests."""
    program = python_program(tmp_path / "replay", REPLAY)
    shutil.copytree(Path(lab.__path__[0]) / "recorded", program.folder / "recorded")
    bench = Bench(program, tmp_path / "data", time.monotonic() + 60)
    with bench.broker() as broker:
        broker.start()
        s02_fetch.recorded(bench, broker)
        s03_segments.recorded(bench, broker)
    assert len(bench.passed) == 19


@pytest.mark.parametrize("language", [name for name in LANGUAGES if name != "other"])
def test_a_skeleton_fails_for_the_right_reason(language: str, tmp_path: Path) -> None:
    """It says itself what is not built yet."""
    write_starter(tmp_path / "mine", language)
    program = StudentProgram.read(tmp_path / "mine")
    if language == "go":
        needs_go()
    elif language == "python":
        program = StudentProgram(program.folder, (sys.executable, *program.command[1:]))
    program.build()
    verdict = grade(program, STAGES[1])
    assert verdict.wrong is not None
    assert verdict.wrong.what == "Your program ended with status 1. Its last words: encode is not built yet"


def test_for_another_language_there_is_a_file_with_examples_of_commands(tmp_path: Path) -> None:
    """It names none itself; each example can be used without its #."""
    [path] = write_starter(tmp_path / "mine", "other")
    with pytest.raises(LabError, match="has no command yet"):
        StudentProgram.read(path.parent)
    commands = re.findall(r"^# (?:(build = .*)\n# )?(command = .*)$", path.read_text(), re.MULTILINE)
    assert len(commands) == 3
    for lines in commands:
        path.write_text("\n".join(lines))
        assert len(StudentProgram.read(path.parent).command) in (1, 2, 4)


def needs_go() -> None:
    """Skip where there is no Go."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")


def test_a_verdict_has_everything_for_a_person_and_for_a_program(tmp_path: Path) -> None:
    """What was sent, what came, what was wanted, which byte differs, and what the paper says."""
    [defect] = [d for d in DEFECTS if d.name == "a negative offset is taken for 0"]
    verdict = grade(python_program(tmp_path, defect.plant()), STAGES[2])
    text = verdict.text()
    assert "Stage 2, append and fetch: NOT PASSED" in text
    assert "Tried:  A fetch from a negative offset is answered with error 1" in text
    assert "Result: Byte 3 differs: 0x2b came, 0x02 was wanted." in text
    lines = text.splitlines()
    came = lines.index("came:")
    assert lines[came + 2].strip().startswith("^^")
    assert lines[came + 2].index("^^") == lines[came + 1].index("2b")
    assert "wanted:\n  0000  00 00 00 02 00 01 " in text
    assert 'The paper, section 3.1: "' in text
    document = json.loads(json.dumps(verdict.document()))
    assert document["wanted"] == "000000020001"
    assert document["first_different_byte"] == 3
    assert bytes.fromhex(document["sent"])[4:6] == b"\0\1"
    assert document["passed"] is False


def test_a_stage_ends_when_its_time_is_over(solution: StudentProgram, tmp_path: Path) -> None:
    """The next check says so."""
    bench = Bench(solution, tmp_path, time.monotonic() - 1)
    with pytest.raises(WrongError, match="time limit"):
        STAGES[2].grade(bench)


def test_a_stage_that_cannot_be_tried_here_is_skipped(
    solution: StudentProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is neither passed nor failed, and the next stage is graded."""

    def refuse(_self: object) -> None:
        raise LocalZooKeeperError("there is no Java")

    monkeypatch.setattr(LocalZooKeeper, "start", refuse)
    skipped, after = grade_in_order(solution, [STAGES[8], STAGES[7]])
    assert not skipped.passed
    assert "Stage 8, a member that joins and leaves: SKIPPED: " in skipped.text()
    assert "there is no Java" in skipped.document()["skipped"]
    assert after.passed


def test_where_no_small_disk_can_be_made_the_check_is_named(
    solution: StudentProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage can still be passed."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))  # without unshare
    verdict = grade(solution, STAGES[5])
    assert verdict.passed
    assert "skipped: A full disk: what cannot be written is not proven: this machine has no user" in verdict.text()
    assert verdict.document()["checks_skipped"]
