"""Who may do what, and who a client is."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

import pytest

from kafka2011.broker.security.access import CONSUME, CREATE_TOPICS, DELETE_TOPICS, GROUPS, PRODUCE, Access
from kafka2011.broker.security.certificates import NOBODY, principal_of
from kafka2011.broker.security.file_changes import LOOK_INTERVAL_S
from kafka2011.config import BrokerConfig
from kafka2011.errors import ConfigError
from tests.support.clocks import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

RULES = """
[produce]
"views|clicks" = ["front", "mirror"]
[consume]
".*" = ["loader"]
"views" = ["*"]
[groups]
"loader-.*" = ["loader"]
[topics.delete]
"views" = ["front"]
"""


def rules(directory: Path, text: str = RULES) -> Path:
    """Write a file of rules."""
    path = directory / "allow.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("principal", "what", "topic", "answer"),
    [
        ("front", PRODUCE, "views", True),
        ("front", PRODUCE, "views2", False),  # the whole name
        ("front", CONSUME, "clicks", False),
        ("loader", CONSUME, "anything", True),
        ("loader", PRODUCE, "views", False),
        (NOBODY, CONSUME, "views", True),
        (NOBODY, PRODUCE, "views", False),
        ("*", PRODUCE, "views", False),
        ("loader", GROUPS, "loader-1", True),
        ("loader", GROUPS, "views", False),
        ("front", GROUPS, "loader-1", False),
        ("front", DELETE_TOPICS, "views", True),
        ("front", DELETE_TOPICS, "clicks", False),
        ("front", CREATE_TOPICS, "views", False),
    ],
)
def test_what_no_line_allows_is_refused(tmp_path: Path, principal: str, what: str, topic: str, answer: bool) -> None:
    """By principal and by the whole name of the topic or group; and the second time the answer is the same."""
    access = Access(rules(tmp_path), ManualClock())
    assert [access.may(principal, what, topic) for _ in range(2)] == [answer] * 2


def test_rules_change_while_it_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Within a second of the change; and what cannot be read leaves the old ones, and is logged once."""
    caplog.set_level(logging.ERROR)
    clock = ManualClock()
    access = Access(rules(tmp_path), clock)
    rules(tmp_path, '[produce]\n"views" = []\n')
    assert access.may("front", PRODUCE, "views")
    clock.sleep(LOOK_INTERVAL_S)
    assert not access.may("front", PRODUCE, "views")
    rules(tmp_path, "[produce]\nviews = 3\n")
    for _ in range(3):
        clock.sleep(LOOK_INTERVAL_S)
        assert not access.may("front", PRODUCE, "views")
    assert caplog.text.count("the old rules stay") == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[produce", "allow.toml"),
        ("[prodcue]\n", "unknown section \\[prodcue\\]"),
        ("[topics.delte]\n", "unknown section \\[topics.delte\\]"),
        ("[topics]\nviews = ['a']\n", "unknown section \\[topics.views\\]"),
        ("topics = 1\n", "unknown section \\[topics\\]"),
        ("topics.delete = 1\n", "table"),
        ("produce = 1\n", "table"),
        ("[consume]\nviews = 'all'\n", "list of names"),
        ("[consume]\nviews = [1]\n", "list of names"),
        ("[consume]\n'vi(ews' = ['a']\n", "vi\\(ews"),
    ],
)
def test_rules_that_make_no_sense_stop_a_start(tmp_path: Path, text: str, why: str) -> None:
    """With the file, and what is wrong in it."""
    with pytest.raises(ConfigError, match=why) as caught:
        Access(rules(tmp_path, text), ManualClock())
    assert "allow.toml" in str(caught.value)


SUBJECT = {
    "subject": (
        (("countryName", "DE"),),
        (("organizationName", "Shop, Inc."),),
        (("organizationalUnitName", "web"),),
        (("commonName", "front"),),
    )
}


@pytest.mark.parametrize(
    ("rule", "principal"),
    [
        ("CN=([^,]+)", "front"),
        ("OU=(\\w+)", "web"),
        ("(.*)", "C=DE,O=Shop\\, Inc.,OU=web,CN=front"),
        ("UID=(.*)", NOBODY),
        ("CN=(x?)", NOBODY),
    ],
)
def test_a_rule_finds_the_principal(rule: str, principal: str) -> None:
    """In the subject; who is not found is nobody, and so is who has no certificate."""
    assert principal_of(SUBJECT, re.compile(rule)) == principal
    assert principal_of({}, re.compile(rule)) == NOBODY


def test_a_name_cannot_pretend_to_be_two(tmp_path: Path) -> None:
    """A comma in a name is written so that no rule takes what follows for another part."""
    forged = {"subject": ((("commonName", "x,CN=admin"),),)}
    assert principal_of(forged, re.compile("(?:^|,)CN=([^,]+)")) == "x\\"
    assert not Access(rules(tmp_path), ManualClock()).may("x\\", PRODUCE, "views")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"tls.port": "0"}, "tls.certificate"),
        ({"tls.only": "true", "tls.certificate": "c"}, "tls.key"),
        ({"tls.only": "true", "tls.port": "1", "tls.certificate": "c", "tls.key": "k"}, "exclude one another"),
        ({"tls.client.required": "true"}, "tls.ca"),
        ({"tls.principal.rule": "CN=.*"}, "group"),
        ({"tls.principal.rule": "("}, "regular"),
    ],
)
def test_settings_that_do_not_fit_together(given: dict[str, str], why: str) -> None:
    """They are refused before anything listens."""
    with pytest.raises(ConfigError, match=why):
        BrokerConfig.from_properties({"brokerid": "0", "log.dir": "x", "enable.zookeeper": "false", **given})
