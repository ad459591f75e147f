"""Every `kafka2011 ...` that a document has one type is a command with options and values that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from kafka2011.cli import app

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def calls_in(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each `kafka2011` in a shell's text; none of what a here-document holds."""
    text = re.sub(r"<<-?'?(\w+)'?(.*?)\n.*?^\1$", r"\2", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\$\{?\w+\}?", "zk-1:2181", text.replace("\\\n", " "))
    for line in text.splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        words.wordchars += ":,@*?[]{}+%^$!"
        call: list[str] | None = None
        program = ""
        for word in words:
            if set(word) <= set("();<>|&"):
                if call is not None:
                    yield call
                call, program = None, ""
            elif call is not None:
                call.append(word)
            elif program:
                call = (
                    []
                    if program in {"docker", "docker-compose", "compose.sh"} and word in {"cli", "kafka2011"}
                    else None
                )
            elif word not in {"do", "if", "then", "until", "while", "!"} and not re.match(r"[A-Z_]+=", word):
                program = word.rpartition("/")[2]
                call = [] if program == "kafka2011" else None
        if call is not None:
            yield call


def parse(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    """Have click read what follows a command, and call nothing. Raises click's UsageError."""
    context = command.make_context("kafka2011", words, parent=parent)
    if isinstance(command, click.Group) and context._protected_args:
        _, below, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert below is not None
        parse(below, rest, context)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_has_one_type_can_be_typed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, options and values are read; files need not be there."""

    def as_it_is(_self: Any, value: Any, _param: Any, _ctx: Any) -> Any:
        return value

    monkeypatch.setattr(click.File, "convert", as_it_is)
    monkeypatch.setattr(click.Path, "convert", as_it_is)
    for block in re.findall(r"^```sh\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        for words in calls_in(block):
            try:
                parse(app.cli, list(words))
            except click.exceptions.Exit:
                pass
            except click.ClickException as error:
                pytest.fail(f"{shlex.join(['kafka2011', *words])}: {error.format_message()}")


def test_calls_are_found() -> None:
    """Where a shell would begin a command, also in a container, but in no file's text."""
    text = r"""
a kafka2011 | A=1 kafka2011 x 'b c' > f; /opt/bin/kafka2011 y \
  -z  # kafka2011 no
cat <<'END' > f
kafka2011 no
END
docker-compose run --rm cli p
"""
    assert list(calls_in(text)) == [["x", "b c"], ["y", "-z"], ["p"]]
