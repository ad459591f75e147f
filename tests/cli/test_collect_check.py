"""`kafka2011 collect --check`: what is found in a file, without a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from kafka2011.cli.collect import command

if TYPE_CHECKING:
    from pathlib import Path

LINE = '192.0.2.7 - - [29/May/2017:19:02:48 +0000] "GET /a HTTP/1.1" 200 612 "-" "curl/8" "-"\n'


def check(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["--check", *arguments])


def test_the_fields_of_a_log_are_shown_with_an_example(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text(LINE * 30 + "nothing\n")
    result = check(str(log))
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.output.splitlines()]
    assert ["time", "30", "2017-05-29", "19:02:48+00:00"] in rows
    assert ["user_agent", "30", "curl/8"] in rows
    assert ["rest", "30", '"-"'] in rows
    assert f"{log}: of its first 31 lines, 1 could not be parsed" in result.output
    assert "1 line: identity: not as in the combined log format, as in 'nothing'" in result.output


def test_a_format_is_tried_before_it_is_used(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text("200 /a 0.5\n" * 30)
    result = check(str(log))
    assert result.exit_code == 1
    assert "more than 10% of the lines of" in str(result.exception)
    result = check(str(log), "--log-format", "$status $request_uri $request_time")
    assert result.exit_code == 0, result.output
    assert ["duration_us", "30", "500000"] in [line.split() for line in result.output.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "--check needs a FILE"),
        (("/nowhere",), "cannot read /nowhere: No such file or directory"),
        (("/nowhere", "--log-format", "nope"), "'nope' is no format of access logs"),
    ],
)
def test_what_cannot_be_checked_is_an_error(arguments: tuple[str, ...], why: str) -> None:
    result = check(*arguments)
    assert result.exit_code != 0
    assert why in result.output + str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("FILE",), "Missing option '--topic'"),
        (("FILE", "--topic", "t", "--log-format", "json", "--zookeeper", "x"), "--log-format is for access logs"),
        (("FILE", "--topic", "t", "--as", "access-log", "--log-format", "nope"), "'nope' is no format of access logs"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_is_read(
    arguments: tuple[str, ...], why: str
) -> None:
    result = CliRunner().invoke(command, [*arguments])
    assert result.exit_code != 0
    assert why in result.output + str(result.exception)
