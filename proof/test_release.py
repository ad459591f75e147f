"""The wheels of a release: for glibc 2.17, of two kinds of machines, installed where there is no compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
VERSIONS = ("3.11", "3.13")
_TRIED = """
import kafka2011, sys
from kafka2011.message import runs
from kafka2011.producer import appending
assert runs.compiled is not None and appending.compiled is not None
assert kafka2011.MessageSet([b"x"])
"""

pytestmark = pytest.mark.timeout(900)


def call(*command: object, cwd: Path = ROOT, **environ: str) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=os.environ | environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels and source, made by tools in an environment of their own."""
    place = tmp_path_factory.mktemp("release")
    call(sys.executable, "-m", "venv", place / "tools")
    python = place / "tools" / "bin" / "python"
    call(python, "-m", "pip", "install", "-q", "auditwheel", "build", "setuptools>=77", "wheel", "ziglang")
    call(python, "scripts/make_dist.py", place / "dist", "--release")
    for wheel in (place / "dist").glob("*.whl"):
        said = call(place / "tools" / "bin" / "auditwheel", "show", wheel)
        assert "manylinux_2_17" in said
    return place / "dist"


def test_there_is_a_wheel_for_each_machine_and_the_source(dist: Path) -> None:
    """All of one version of the C interface, which later versions of Python have too."""
    names = sorted(path.name.partition("-")[2].partition("-")[2] for path in dist.iterdir())
    assert names == ["", "cp311-abi3-manylinux2014_aarch64.whl", "cp311-abi3-manylinux2014_x86_64.whl"]


@pytest.mark.parametrize("version", VERSIONS)
def test_it_is_installed_without_a_compiler(dist: Path, tmp_path: Path, version: str) -> None:
    """In an environment that has nothing yet; its C code is there and works."""
    of_pyenv = Path.home().glob(f".pyenv/versions/{version}.*/bin/python")  # whose shims may lead nowhere
    python = next(map(str, of_pyenv), None) or shutil.which(f"python{version}")
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    call(python, "-m", "venv", tmp_path / "empty")
    [wheel] = dist.glob(f"*{os.uname().machine}.whl")
    installed = tmp_path / "empty" / "bin" / "python"
    call(installed, "-m", "pip", "install", "-q", wheel, CC="/bin/false")
    call(installed, "-c", _TRIED, cwd=tmp_path)
