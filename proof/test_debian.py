"""What README.md has one type works on bare Debian systems: the oldest that is tried, and the newest."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.operations.machine import blocks_of
from integration.pasting import AFTERWARDS, LOOPBACK_UP, first_steps, for_a_shell
from tests.support.busy import busy

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
SUITES = {"bookworm": ("Python 3.11", "17."), "trixie": ("Python 3.13", "21.")}
BOOTSTRAP_TIMEOUT_S = 300
COMMAND_TIMEOUT_S = 3600

pytestmark = pytest.mark.timeout(BOOTSTRAP_TIMEOUT_S + 2 * COMMAND_TIMEOUT_S)


class System:
    """A Debian system in a directory, with the project in it. Shares this machine's network and settings of pip."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._environ = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
        self._environ |= {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LANG": "C.UTF-8",
        }

    def make(self, suite: str) -> None:
        """Fetch the smallest system of a suite, and put the project there as it is in the work tree."""
        command = ["debootstrap", "--variant=minbase", "--include=make", suite, str(self._directory), MIRROR]
        _checked(command, BOOTSTRAP_TIMEOUT_S)
        for name in ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf"):
            if Path(name).exists():
                shutil.copy(name, self._directory / name[1:])
        # Certificates of this machine's own authorities.
        certificates = Path(os.environ.get("PIP_CERT", "/etc/ssl/certs/ca-certificates.crt"))
        if certificates.exists():
            shutil.copy(certificates, self._directory / "certificates.crt")
            self._environ["PIP_CERT"] = "/certificates.crt"
        (self._directory / "project").mkdir()
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        packed = subprocess.run(
            ["tar", "--create", "--null", "--files-from=-"],
            cwd=ROOT,
            input=listed.stdout,
            capture_output=True,
            check=True,
        )
        subprocess.run(
            ["tar", "--extract", "--directory", self._directory / "project"], input=packed.stdout, check=True
        )

    def run(self, command: str) -> str:
        """Run a command in the project's directory, and return what it printed; no process of it stays."""
        return self._inside(["sh", "-c", command])

    def paste(self, text: str, *, own_network: bool = False) -> str:
        """Paste commands into a shell there, perhaps in a network where every port is free."""
        if not own_network:
            return self._inside(["bash"], for_a_shell(text))
        return self._inside(["python3", "-c", LOOPBACK_UP, "bash"], for_a_shell(text), "--net")

    def _inside(self, command: list[str], stdin: str = "", *more: str) -> str:
        root = self._directory
        script = (
            f"mount -t proc proc '{root}/proc' && mount -t devpts -o newinstance,ptmxmode=0666 devpts '{root}/dev/pts'"
            f" && exec chroot '{root}' sh -c 'cd /project && exec \"$@\"' sh \"$@\""
        )
        own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *more]
        return _checked([*own, "sh", "-c", script, "sh", *command], COMMAND_TIMEOUT_S, self._environ, stdin)


def _checked(command: list[str], timeout_s: float, environ: dict[str, str] | None = None, stdin: str = "") -> str:
    done = subprocess.run(
        command,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environ,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}: {done.stdout[-30_000:]}"
    return done.stdout


@pytest.fixture(scope="module", params=sorted(SUITES))
def suite(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def system(suite: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Make a bare system; skip where that is not allowed, or the archive is out of reach."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a Debian system in a directory")
    if shutil.which("debootstrap") is None:
        pytest.skip("making a Debian system needs debootstrap: apt-get install debootstrap")
    archive = subprocess.run(
        [ROOT / "integration" / "debian" / "archive.sh", suite, "simulate", "make"],
        capture_output=True,
        text=True,
        timeout=BOOTSTRAP_TIMEOUT_S,
        check=False,
    )
    if archive.returncode == 3:
        pytest.skip(archive.stderr)
    directory = tmp_path_factory.mktemp(suite) / "root"
    made = System(directory)
    try:
        made.make(suite)
        yield made
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def test_the_quick_demo(system: System) -> None:
    """`make demo DEMO=quick` does with little on a system that has only make, and says how much that will be."""
    said = system.run("make demo DEMO=quick 2>&1")
    assert "setup: installing default-jre-headless" in said
    assert "setup: installing libzookeeper-java" in said
    assert "setup: installing kafka2011[quick] into .venv: 300 MB" in said
    assert int(system.run("du -sm .venv").split()[0]) < 300
    assert "OK: 10000 lines arrived" in said


def test_the_demo(system: System, suite: str) -> None:
    """`make demo` installs what it needs, and accounts for every line.

    That is also a compiler; when the C code changes, it is compiled anew.
    """
    system.run("make demo 2>&1")
    python, java = SUITES[suite]
    assert system.run(".venv/bin/python -V").startswith(f"{python}.")
    assert f'version "{java}' in system.run("java -version 2>&1")
    assert "(messages in C, " in system.run(".venv/bin/kafka2011 --version")
    assert "setup: " not in system.run("scripts/setup.sh demo 2>&1")
    system.run("sed -i 's/messages in C/messages in new C/' kafka2011/message/_runs.c && scripts/setup.sh demo")
    assert "(messages in new C, " in system.run(".venv/bin/kafka2011 --version")


def test_the_tests(system: System) -> None:
    """`make test` passes there, from lint to integration, and has crcmod's C code compiled."""
    said = system.run("make test 2>&1")
    assert said.count(" passed") >= 2
    assert " failed" not in said
    system.run(".venv/bin/python -c 'import crcmod._crcfunext'")


def test_the_first_steps(system: System) -> None:
    """The README's lines, pasted, lead to the messages that it shows; so do those of docs/reference/commands.md.

    On a machine that is as busy as a laptop at its worst, from the first line to the last.
    """
    steps = first_steps()
    afterwards = "\n".join(("echo == and then", *AFTERWARDS))
    system.run("echo 'APT::Get::Assume-Yes true;' > /etc/apt/apt.conf.d/nobody-answers && apt-get -q update")
    enter = "python3 -m venv /first-steps\n. /first-steps/bin/activate\n"
    with busy(COMMAND_TIMEOUT_S):
        system.paste(steps.debian)
        system.paste(enter + steps.setup)
        first, then = system.paste(enter + steps.text + afterwards, own_network=True).split("== and then\n")
    assert first.endswith(steps.prints)
    assert sorted(then.splitlines()[-2:]) == ["one", "two"]


def test_an_installation_for_systemd(system: System) -> None:
    """What docs/how-to/operations.md has one type to install brokers leaves a program, its user, and the units."""
    system.run("make dist 2>&1")
    system.paste(blocks_of("Install brokers")[0])
    assert system.run("kafka2011 --version").startswith("kafka2011 ")
    system.run("id kafka2011 && test -s /etc/systemd/system/kafka2011-broker@.service && test -d /etc/kafka2011")
