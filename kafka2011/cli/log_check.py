"""`kafka2011 collect --check`: what an access log's first lines would become, without sending anything."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import click

from kafka2011.cli.output import counted, show_table
from kafka2011.collect.counts import JUDGED_LINES
from kafka2011.collect.text_file import open_text
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from io import BufferedReader

CHECKED_LINES = 1000
"""How many lines of a file are read."""
_SHOWN_CHARACTERS = 60
_LONGEST_BYTES = 1_000_000
_REASONS = 5


def check_files(paths: Sequence[str], log_format: str, most_unparsed: float) -> None:
    """Print what each file's first lines would become. Raises KafkaError if too many of one could not be parsed."""
    bad, unread = [], []
    for path in paths:
        try:
            if not _check(path, log_format, most_unparsed):
                bad.append(path)
        except KafkaError as error:
            click.echo(str(error), err=True)
            unread.append(path)
    if unread:
        raise KafkaError(f"{counted(len(unread), 'file')} could not be read: {', '.join(unread)}")
    if bad:
        raise KafkaError(
            f"more than {most_unparsed:.0%} of the lines of {', '.join(bad)} could not be parsed: give --log-format,"
            " with the text of nginx's log_format or Apache's LogFormat"
        )


def _check(path: str, log_format: str, most_unparsed: float) -> bool:
    """Print what is found in a file; say whether enough of it is."""
    from kafka2011.collect.access_log import is_unparsed, page_view

    lines = unparsed = 0
    found: Counter[str] = Counter()
    examples: dict[str, Any] = {}
    reasons: dict[str, tuple[int, str]] = {}
    for line in itertools.islice(_lines(path), CHECKED_LINES):
        event = page_view(line, log_format)
        lines += 1
        unparsed += is_unparsed(event)
        for name, value in event.items():
            if value is not None and name not in {"line", "parse_error"}:
                found[name] += 1
                examples.setdefault(name, value)
        if "parse_error" in event:
            count, example = reasons.get(event["parse_error"], (0, event["line"]))
            reasons[event["parse_error"]] = (count + 1, example)
    _show(path, lines, unparsed, found, examples)
    for reason, (count, example) in sorted(reasons.items(), key=lambda item: -item[1][0])[:_REASONS]:
        click.echo(f"{counted(count, 'line')}: {reason}, as in {example[: 2 * _SHOWN_CHARACTERS]!r}")
    return lines < JUDGED_LINES or unparsed <= most_unparsed * lines


def _show(path: str, lines: int, unparsed: int, found: Counter[str], examples: dict[str, Any]) -> None:
    click.echo(f"{path}: of its first {counted(lines, 'line')}, {unparsed} could not be parsed")
    rows = [(name, found[name], _shown(name, examples[name])) for name in examples]
    if rows:
        show_table(("field", "lines", "first"), rows, as_json=False)


def _shown(name: str, value: Any) -> str:
    if name == "time":
        return str(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value))
    text = str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def _lines(path: str) -> Iterator[bytes]:
    try:
        with click.open_file(path, "rb") as file, open_text(cast("BufferedReader", file), path) as text:
            while line := text.readline(_LONGEST_BYTES):
                yield line
    except OSError as error:
        raise KafkaError(f"cannot read {path}: {error.strerror}") from error
