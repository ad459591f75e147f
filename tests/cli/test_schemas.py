"""`kafka2011 schemas`, over znodes in memory, and what commands say without the extra."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kafka2011.cli import schemas
from kafka2011.cli.app import main
from kafka2011.events.compatibility import Compatibility
from kafka2011.events.schemas import HEADER, EventSchema, event_schema
from tests.support.zk_in_memory import ZkClientInMemory

if TYPE_CHECKING:
    from pathlib import Path

VIEW = event_schema("View", {"name": "url", "type": "string"})
NEWER = event_schema("View", {"name": "url", "type": "string"}, {"name": "n", "type": "int", "default": 0})
BROKEN = event_schema("View", {"name": "url", "type": "long"})


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> ZkClientInMemory:
    """Give every command znodes in memory."""
    client = ZkClientInMemory()
    monkeypatch.setattr(schemas, "open_session", lambda zk_connect: client)
    return client


def written(directory: Path, schema: EventSchema | str) -> str:
    path = directory / "view.avsc"
    path.write_text(schema if isinstance(schema, str) else json.dumps(schema.document, indent=4))
    return str(path)


def test_what_is_registered_is_listed_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By topic and number, by topic alone, and by fingerprint."""
    assert main(["schemas", "register", "views", written(tmp_path, VIEW)]) == 0
    assert main(["schemas", "register", "views", written(tmp_path, NEWER), "--json"]) == 0
    capsys.readouterr()
    assert main(["schemas", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [list(each.values()) for each in listed] == [
        ["views", 1, "kafka2011.View", VIEW.fingerprint, 5, "in use"],
        ["views", 2, "kafka2011.View", NEWER.fingerprint, 6, "in use"],
    ]
    for what, schema in ((["views"], NEWER), (["views", "--number", "1"], VIEW), (["--fingerprint"], VIEW)):
        assert (
            main(["schemas", "show", *what, *([VIEW.fingerprint.upper()] if what[0] == "--fingerprint" else [])]) == 0
        )
        assert EventSchema(capsys.readouterr().out) == schema


def test_a_schema_is_checked_without_being_registered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status and text say whether it goes with the topic's others."""
    main(["schemas", "register", "views", written(tmp_path, VIEW)])
    capsys.readouterr()
    assert main(["schemas", "check", "views", written(tmp_path, VIEW)]) == 0
    assert "is schema 1 of views already" in capsys.readouterr().out
    assert main(["schemas", "check", "views", written(tmp_path, NEWER)]) == 0
    assert "goes with 1 schema of views" in capsys.readouterr().out
    assert main(["schemas", "check", "views", written(tmp_path, BROKEN)]) == 1
    assert "topic views: with the new schema, events of schema 1 could not be read" in capsys.readouterr().err
    assert main(["schemas", "show", "views", "--number", "2"]) == 1
    assert "topic views has no schema 2: its schemas have the numbers 1 to 1" in capsys.readouterr().err


def test_what_does_not_go_with_the_others_must_be_forced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is registered before."""
    main(["schemas", "register", "views", written(tmp_path, VIEW)])
    assert main(["schemas", "register", "views", written(tmp_path, BROKEN)]) == 1
    assert "type mismatch" in capsys.readouterr().err
    assert main(["schemas", "register", "views", written(tmp_path, BROKEN), "--force"]) == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2"),
        ('"string"', "is a record"),
        ('{"type": "record", "name": "View", "fields": []}', "field 1 must be"),
        (" " * 300_000, "at most 262144"),
        ("[" * 100_000, "not an Avro schema"),
    ],
)
def test_a_file_that_is_no_schema_of_events_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, why: str
) -> None:
    """The error names the file."""
    path = written(tmp_path, text)
    assert main(["schemas", "check", "views", path]) == 1
    error = capsys.readouterr().err
    assert why in error
    assert path in error


def test_types_of_other_files_become_part_of_the_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The check and the registration take the files; without them the error names the type and the option."""
    line = tmp_path / "line.avsc"
    line.write_text(
        '// of every shop\n{"type": "record", "name": "shop.Line", "fields": [{"name": "n", "type": "int"}]}'
    )
    order = written(tmp_path, json.dumps({**VIEW.document, "fields": [*HEADER, {"name": "line", "type": "shop.Line"}]}))
    for command in ("check", "register"):
        assert main(["schemas", command, "orders", order]) == 1
        assert (
            "view.avsc: record View: type shop.Line is not defined: give the file that defines it with --reference"
            in (capsys.readouterr().err)
        )
        assert main(["schemas", command, "orders", order, "--reference", str(line)]) == 0
    capsys.readouterr()
    assert main(["schemas", "show", "orders"]) == 0
    shown = json.loads(capsys.readouterr().out)["fields"][4]["type"]
    assert (shown["name"], shown["namespace"]) == ("Line", "shop")


@pytest.mark.parametrize("arguments", [[], ["views", "--fingerprint", "0"], ["--number", "1"]])
def test_show_wants_one_schema(arguments: list[str]) -> None:
    """A topic or a fingerprint."""
    assert main(["schemas", "show", *arguments]) == 2


def test_without_the_extra_commands_say_what_to_install() -> None:
    """In one line; commands that have nothing to do with events do not need it."""
    script = (
        "import sys; sys.modules['fastavro'] = None; sys.modules['avro'] = None\n"
        "from kafka2011.cli.app import main\n"
        "sys.exit(main(['schemas', 'check', 'views', sys.argv[1]]) * 10 + main(['consume', '--help']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, __file__], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 10
    assert "fastavro is not installed: pip install 'kafka2011[pipeline]'" in done.stderr
    assert "internal error" not in done.stderr


def test_commands_import_fastavro_only_when_they_need_it() -> None:
    """A start should not wait for it."""
    script = (
        "import sys\nfrom kafka2011.cli import app\n"
        "[app.cli.get_command(None, name) for name in app.COMMANDS]\n"
        "print({'fastavro', 'avro', 'psutil', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"


def test_a_topics_level_is_shown_and_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wider type is refused until the level allows it, by `check` too."""
    main(["schemas", "register", "views", written(tmp_path, event_schema("View", {"name": "n", "type": "int"}))])
    wider = written(tmp_path, event_schema("View", {"name": "n", "type": "long"}))
    assert main(["schemas", "check", "views", wider]) == 1
    assert "kafka2011 schemas compatibility views" in capsys.readouterr().err
    assert main(["schemas", "compatibility", "views", "backward"]) == 0
    assert main(["schemas", "check", "views", wider]) == 0
    assert main(["schemas", "register", "views", wider]) == 0
    capsys.readouterr()
    assert main(["schemas", "compatibility", "views"]) == 0
    assert main(["schemas", "compatibility", "views", "default"]) == 0
    assert capsys.readouterr().out.split() == ["backward", "full_transitive"]


def test_every_level_can_be_given() -> None:
    assert sorted(schemas.LEVELS) == sorted(["default", *Compatibility])


def test_a_retired_schema_is_left_out_until_that_is_undone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for schema in (VIEW, NEWER):
        main(["schemas", "register", "views", written(tmp_path, schema)])
    capsys.readouterr()
    assert main(["schemas", "retire", "views", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "schema 2 of topic views is retired",
        "events that need it: unknown, since the logs were not read (--scan)",
    ]
    assert main(["schemas", "retire", "views", "2", "--json"]) == 0
    done = {"topic": "views", "number": 2, "retired": True, "changed": False, "events": None}
    assert json.loads(capsys.readouterr().out) == done
    assert main(["schemas", "list", "--json"]) == 0
    assert [schema["state"] for schema in json.loads(capsys.readouterr().out)] == ["in use", "retired"]
    assert main(["schemas", "show", "views"]) == 0
    assert EventSchema(capsys.readouterr().out) == VIEW
    assert main(["schemas", "register", "views", written(tmp_path, NEWER)]) == 1
    assert "schemas retire views 2 --undo" in capsys.readouterr().err
    assert main(["schemas", "retire", "views", "2", "--undo"]) == 0
    assert capsys.readouterr().out.startswith("schema 2 of topic views is in use again\n")
    assert main(["schemas", "register", "views", written(tmp_path, NEWER)]) == 0


def test_retiring_names_another_schema_of_the_same_fingerprint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = event_schema("View", {"name": "url", "type": "string"}, doc="A page was seen.")
    for schema in (VIEW, told):
        main(["schemas", "register", "views", written(tmp_path, schema)])
    capsys.readouterr()
    main(["schemas", "retire", "views", "2"])
    assert "schema 1 has the same fingerprint: events of both are loaded as before\n" in capsys.readouterr().out
    main(["schemas", "retire", "views", "1"])
    assert "the topic has no schema in use: loads put all its events into quarantine\n" in capsys.readouterr().out


def test_a_scan_counts_the_events_that_need_a_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["schemas", "register", "views", written(tmp_path, VIEW)])
    counts = {"0-0": 3, "0-1": 0, "1-0": 12}
    asked: list[tuple[str, str]] = []

    def count_events(topic: str, _: str, fingerprint: str) -> dict[str, int]:
        asked.append((topic, fingerprint))
        return counts

    monkeypatch.setattr("kafka2011.cli.schema_scan.count_events", count_events)
    capsys.readouterr()
    main(["schemas", "retire", "views", "1", "--scan"])
    assert "events that need it: 3 in 0-0, 12 in 1-0\n" in capsys.readouterr().out
    assert asked == [("views", VIEW.fingerprint)]
    counts.clear()
    main(["schemas", "retire", "views", "1", "--scan"])
    assert "events that need it: none in the logs of live brokers\n" in capsys.readouterr().out
    assert main(["schemas", "retire", "views", "1", "--scan", "--undo"]) == 2


def test_a_schema_that_does_not_exist_is_not_retired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["schemas", "register", "views", written(tmp_path, VIEW)])
    assert main(["schemas", "retire", "views", "2"]) == 1
    assert "topic views has no schema 2: its schemas have the numbers 1 to 1" in capsys.readouterr().err
