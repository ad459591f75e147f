"""A program that misbehaves gets a verdict within its time, and nothing of it is left."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import pytest

from kafka2011.lab import bench, connection, program
from kafka2011.lab.errors import LabError
from kafka2011.lab.grading import grade
from kafka2011.lab.program import StudentProgram
from kafka2011.lab.stages import STAGES
from tests.support.students import SOLUTION, python_program

_MOST_S = 40
"""More than any of these takes, on a machine that is busy with other tests."""


IMPATIENT = {
    "hangs": (bench, "RUN_TIMEOUT_S"),
    "does not listen": (connection, "CONNECT_TIMEOUT_S"),
    "never answers": (connection, "ANSWER_TIMEOUT_S"),
}
"""Where a test waits a second, and the lab longer."""


def broker_that(does: str) -> str:
    """Return a right solution whose broker does something else."""
    return SOLUTION.replace("        run_broker(settings)\n", f"        {does}\n")


def encode_that(does: str) -> str:
    """Return the same for the role `encode`."""
    return SOLUTION.replace("        run_encode()\n", f"        {does}\n")


LEAVES = "os.fork() or (os.setsid(), time.sleep(60)); sys.exit('left')"

MISBEHAVIOUR = {
    "hangs": (encode_that("time.sleep(60)"), "Your program did not end within 1 s."),
    "crashes": (
        encode_that("1 / 0"),
        r"Your program ended with status 1\. Its last words: (\n    .*)+ZeroDivisionError.*",
    ),
    "prints without end": (
        encode_that("\n        while True: print('x' * 9999)"),
        "Your program was stopped: it wrote more than 1 MiB to its output.",
    ),
    "prints garbage": (encode_that("os.write(1, os.urandom(99))"), "Byte . differs: 0x.. came, 0x00 was wanted."),
    "does not listen": (broker_that("time.sleep(60)"), "Your program does not listen on port .* of 127.0.0.1."),
    "ends at once": (broker_that("sys.exit('no')"), "Your program ended with status 1. Its last words: no"),
    "is killed": (broker_that("os.kill(os.getpid(), 11)"), "Your program was ended by SIGSEGV. .*"),
    "never answers": (
        SOLUTION.replace("connection.sendall(answer)", "time.sleep(60)"),
        "Your program sent nothing more for 3 s after 0 of 6 bytes.",
    ),
    "answers without end": (
        SOLUTION.replace("connection.sendall(answer)", "connection.sendall(b'x' * 10**8)"),
        "Byte 0 differs: 0x78 came, 0x00 was wanted. It is in the size: 2021161080 came, 2 was wanted.",
    ),
    "starts too many processes": (
        broker_that("[os.fork() or time.sleep(60) for _ in range(100)]; time.sleep(60)"),
        "Your program was stopped: it started more than 64 processes.",
    ),
    "leaves a process behind that takes memory": (
        broker_that("os.fork() or (os.setsid(), bytes(2**28), x := b'x' * 2**28, time.sleep(60)); time.sleep(60)"),
        "Your program was stopped: it used more than 0.125 GiB of memory.",
    ),
    "leaves a process behind": (
        broker_that(LEAVES),
        "Your program ended with status 1. Its last words: left",
    ),
}


@pytest.mark.parametrize("name", MISBEHAVIOUR)
def test_a_program_that_misbehaves_gets_a_verdict_and_is_ended(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text says what it did; none of its processes is left."""
    text, what = MISBEHAVIOUR[name]
    assert text != SOLUTION
    monkeypatch.setenv("LAB_TEST", str(tmp_path))
    if "memory" in name:
        monkeypatch.setattr(program, "MOST_MEMORY_BYTES", 128 * 1024**2)
    if name in IMPATIENT:
        monkeypatch.setattr(*IMPATIENT[name], 1.0)
    started_s = time.monotonic()
    verdict = grade(python_program(tmp_path, text), STAGES[1])
    assert time.monotonic() - started_s < _MOST_S
    assert verdict.wrong is not None
    assert re.fullmatch(what, verdict.wrong.what), verdict.wrong.what
    assert processes_with(f"LAB_TEST={tmp_path}") == []


def test_words_that_are_no_text_are_only_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that does not end has often written the right bytes: they are drawn."""
    monkeypatch.setattr(bench, "RUN_TIMEOUT_S", 1.0)
    verdict = grade(python_program(tmp_path, encode_that("os.write(1, bytes(5)); time.sleep(60)")), STAGES[1])
    assert verdict.wrong is not None
    assert verdict.wrong.note == "(5 bytes that are no text)"
    assert "came:\n  0000  00 00 00 00 00 " in verdict.text()
    assert f"started as:\n  {sys.executable} -B main.py encode\n" in verdict.text()


def processes_with(variable: str) -> list[str]:
    """Return the commands of processes, other than this one, that have inherited a variable."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.name != str(os.getpid()) and variable.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_memory_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that takes too much is stopped."""
    monkeypatch.setattr(program, "MOST_MEMORY_BYTES", 64 * 1024**2)
    verdict = grade(python_program(tmp_path, encode_that("x = b'x' * 10**8; time.sleep(60)")), STAGES[1])
    assert verdict.wrong is not None
    assert "of memory" in verdict.wrong.what


def test_data_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is one that fills its data directory."""
    monkeypatch.setattr(program, "MOST_DATA_BYTES", 1024**2)
    fills = "Path(settings['data'], 'x').write_bytes(bytes(2 * 1024**2)); time.sleep(60)"
    verdict = grade(python_program(tmp_path, broker_that(fills)), STAGES[1])
    assert verdict.wrong is not None
    assert "into its data directory" in verdict.wrong.what


def test_a_large_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel refuses to write it."""
    monkeypatch.setattr(program, "MOST_FILE_BYTES", 1024**2)
    fills = "time.sleep(0.3); Path(settings['data'], 'x').write_bytes(bytes(2 * 1024**2))"
    verdict = grade(python_program(tmp_path, broker_that(fills)), STAGES[1])
    assert verdict.wrong is not None
    assert "File too large" in verdict.wrong.what


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "lab.toml does not exist"),
        ("", "has no command yet"),
        ("command = 1", "command must be a list of texts"),
        ("command = []", "command is empty"),
        ("build = 1\ncommand = ['x']", "build must be a list of texts"),
        ("x = ", "cannot read"),
        ("build = ['sh', '-c', 'echo no such library; exit 3']\ncommand = ['x']", "status 3: no such library"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said(tmp_path: Path, text: str | None, message: str) -> None:
    """An error of lab.toml or of the compiler is no verdict on a stage."""
    if text is not None:
        (tmp_path / "lab.toml").write_text(text)
    with pytest.raises(LabError, match=message):
        StudentProgram.read(tmp_path).build()


def test_a_command_is_found_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the folder is the current one."""
    program_path = tmp_path / "program"
    program_path.write_text("#!/bin/sh\necho $1\n")
    program_path.chmod(0o755)
    (tmp_path / "lab.toml").write_text("command = ['./program']\n")
    monkeypatch.chdir(tmp_path)
    run = StudentProgram.read(Path()).start(["hello"])
    try:
        assert run.wait(20) == b"hello\n"
    finally:
        run.end()


def test_a_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """The student looks into lab.toml."""
    verdict = grade(StudentProgram(tmp_path, ("./nothing",)), STAGES[1])
    assert verdict.wrong is not None
    assert verdict.wrong.what == "Your program cannot be started: there is no command './nothing' (lab.toml)."
    (tmp_path / "nothing").touch(0o644)
    verdict = grade(StudentProgram(tmp_path, ("./nothing",)), STAGES[1])
    assert verdict.wrong is not None
    assert verdict.wrong.what == "Your program cannot be started: './nothing' may not be executed (lab.toml)."
