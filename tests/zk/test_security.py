"""What a zk.connect and its security file may say."""

from __future__ import annotations

import logging
import re
import ssl
from typing import TYPE_CHECKING

import pytest

from zk.errors import ZkError
from zk.security import Security, Tls, read_address

if TYPE_CHECKING:
    from pathlib import Path


def written(directory: Path, text: str, mode: int = 0o600) -> Path:
    """Write a security file."""
    path = directory / "z.toml"
    path.touch()
    path.chmod(mode)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("a:1", "a:1", ""),
        ("a:1,b:2/", "a:1,b:2", ""),
        ("a:1,b:2/c/d/", "a:1,b:2", "/c/d"),
        ("a:1?security={}", "a:1", ""),
        ("a:1/c?security={}", "a:1", "/c"),
    ],
)
def test_the_parts_of_an_address(tmp_path: Path, text: str, hosts: str, chroot: str) -> None:
    """Hosts, a chroot, and a file, of which the latter two may be missing."""
    found = read_address(text.format(written(tmp_path, 'user = "u"\npassword = "p"')))
    assert (found.hosts, found.chroot) == (hosts, chroot)
    assert found.security.user == ("u" if "?" in text else "")


@pytest.mark.parametrize("text", ["a:1?", "a:1?security=", "a:1?secure=x", "a:1/c?security=x&more=y", "a:1?x"])
def test_nothing_else_stands_behind_the_chroot(text: str) -> None:
    """A misspelt word must not open a session without security."""
    with pytest.raises(ZkError, match="security=FILE"):
        read_address(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("user = 'u'", "password"),
        ("password = 'p'", "user"),
        ("user = 'a:b'\npassword = 'p'", "colon"),
        ("user = 3", "text"),
        ("zookeeper = 1", "table"),
        ("[zookeeper]\ntls = 1", "true or false"),
        ("[brokers]\ntls = true\nca = 3", "text"),
        ("pasword = 's3cret'", "unknown key pasword"),
        ("[zookeper]\ntls = true", "unknown key zookeper"),
        ("[brokers]\ntls = true\ncertificate = 'x'", "key"),
        ("user = 'u'\npassword = 's3cret'\n[zookeeper]\nca = 'x'", "tls = true"),
        ("", "neither a user nor tls"),
        ("tls = maybe", "TOML"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str, why: str) -> None:
    """With the path, the reason, and never a value."""
    path = written(tmp_path, text)
    with pytest.raises(ZkError, match=why) as caught:
        Security.read(path)
    assert str(path) in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """It is an error that names it, not a session without security."""
    with pytest.raises(ZkError, match=r"gone\.toml"):
        read_address(f"a:1?security={tmp_path}/gone.toml")


def test_a_chroot_behind_the_file_is_an_error_that_says_where_it_belongs(tmp_path: Path) -> None:
    """There it would be a part of the file's name, and nobody would find the file."""
    path = written(tmp_path, 'user = "u"\npassword = "p"')
    with pytest.raises(ZkError, match=re.escape(f"write a:1,b:2/leaving/1?security={path} ")):
        read_address(f"a:1,b:2?security={path}/leaving/1")
    with pytest.raises(ZkError, match=re.escape(f"write a:1/kafka/leaving?security={path} ")):
        read_address(f"a:1/kafka?security={path}/leaving")


def test_files_of_tls_that_are_not_there(tmp_path: Path) -> None:
    """They are named before anybody connects."""
    with pytest.raises(ZkError, match=r"gone\.pem"):
        Tls(ca=f"{tmp_path}/gone.pem").context(ssl)


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_password_that_others_may_read(
    tmp_path: Path, mode: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It is used, and said."""
    caplog.set_level(logging.WARNING)
    security = Security.read(written(tmp_path, "user = 'u'\npassword = 'p'\n[zookeeper]\ntls = true", mode))
    assert (security.user, security.password) == ("u", "p")
    assert ("chmod 600" in caplog.text) == warned
    assert "'p'" not in repr(security)


def test_hosts_may_have_blanks_after_their_commas() -> None:
    """As in lists of other programs."""
    assert read_address("a:1, b:2 ,c:3/kafka")[:2] == ("a:1,b:2,c:3", "/kafka")
