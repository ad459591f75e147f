"""`make dist` makes the same bytes again, wherever and whenever."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
AT_S = 1_300_000_000

pytestmark = pytest.mark.timeout(600)


def copied(directory: Path, *, at_s: int, umask: int) -> Path:
    """Copy what is packed as another checkout may have it: elsewhere, at another time, with other rights."""
    before = os.umask(umask)
    try:
        directory.mkdir()
        for name in ("scripts", "CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", "setup.py"):
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, directory / name)
        for name in ("kafka2011", "pyspark_kafka2011", "zk"):
            shutil.copytree(ROOT / name, directory / name, copy_function=shutil.copyfile)
        for path in directory.rglob("*"):
            os.utime(path, (at_s, at_s))
    finally:
        os.umask(before)
    return directory


def made(checkout: Path, **environ: str) -> dict[str, str]:
    """Make both archives, and return their sums by name."""
    command = [sys.executable, "scripts/make_dist.py", "dist"]
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(AT_S)} | environ
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (checkout / "dist").iterdir()}


def test_the_same_bytes_twice(tmp_path: Path) -> None:
    """From checkouts at other places, of other times, with other rights, and another order of hashes."""
    one = made(copied(tmp_path / "one", at_s=1_000_000_000, umask=0o022), PYTHONHASHSEED="1")
    other = made(
        copied(tmp_path / "a-longer-name", at_s=1_500_000_000, umask=0o077), PYTHONHASHSEED="2", TZ="Asia/Tokyo"
    )
    assert len(one) == 2
    assert one == other
    [wheel] = (tmp_path / "one" / "dist").glob("*.whl")
    assert "abi3" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        assert {info.date_time[:3] for info in archive.infolist()} == {(2011, 3, 13)}
        assert not [name for name in archive.namelist() if str(tmp_path).encode() in archive.read(name)]
    [packed] = (tmp_path / "one" / "dist").glob("*.tar.gz")
    with tarfile.open(packed) as source:
        assert {(each.mtime, each.uid, each.uname) for each in source.getmembers()} == {(AT_S, 0, "")}
