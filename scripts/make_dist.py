"""Makes wheel and source archive, the same bytes from the same sources: `python scripts/make_dist.py DIRECTORY`.

With `--release` the wheels are those of an index, which need no compiler where they are installed: for each machine in
MACHINES, on Linux with glibc 2.17 or later, compiled by Zig (the extra `release`), which brings that glibc's headers.

Neither names, times, owners and rights of files here, nor where this is, are in them. All times are
SOURCE_DATE_EPOCH's, or else the last commit's. The wheel's C code is the same where compiler and Python are.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", "setup.py", "kafka2011", "pyspark_kafka2011", "zk")
MACHINES = ("x86_64", "aarch64")
GLIBC = "2.17"
"""That of manylinux2014."""
FIRST_S = 315_532_800
"""The time that zip archives begin with: what has no other gets it."""


def made_at_s() -> int:
    """Return the time that all files get, in seconds since 1970."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None:
        command = ["git", "log", "-1", "--format=%ct"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 (ours)
        given = done.stdout.strip()
    return max(int(given or FIRST_S), FIRST_S)


def copy_sources(into: Path) -> None:
    """Copy what is packed, without anything that was built, with the same rights everywhere."""
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, into / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        else:
            shutil.copy(source, into / name)
    for path in into.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def build(source: Path, into: Path, at_s: int, kinds: Sequence[str], **compiler: str) -> None:
    """Build a wheel and a source archive there, or one of them."""
    flags = f"{os.environ.get('CFLAGS', '')} -g0 -ffile-prefix-map={source}=.".strip()
    environ = os.environ | {"SOURCE_DATE_EPOCH": str(at_s), "CFLAGS": flags, "PYTHONHASHSEED": "0"} | compiler
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        *(f"--{kind}" for kind in kinds),
        "--outdir",
        str(into),
        str(source),
    ]
    umask = os.umask(0o022)
    try:
        subprocess.run(command, cwd=source, env=environ, check=True)  # noqa: S603 (ours)
    finally:
        os.umask(umask)


def pack_again(archive: Path, at_s: int) -> None:
    """Write a source archive again: sorted, of nobody, with one time for all."""
    packed = io.BytesIO()
    with tarfile.open(archive) as before, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as after:
        for member in sorted(before.getmembers(), key=lambda each: each.name):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = at_s
            member.mode = 0o755 if member.isdir() else 0o644
            member.pax_headers = {}
            after.addfile(member, before.extractfile(member) if member.isfile() else None)
    with archive.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=at_s) as zipped:
        zipped.write(packed.getvalue())


def build_for(machine: str, source: Path, into: Path, at_s: int) -> None:
    """Build the wheel of an index for a kind of machine, which need not be this one's."""
    compiler = f"{sys.executable} -m ziglang cc -target {machine}-linux-gnu.{GLIBC}"
    shutil.rmtree(source / "build", ignore_errors=True)
    platform = f"linux-{machine}"
    build(source, into, at_s, ["wheel"], CC=compiler, LDSHARED=f"{compiler} -shared", _PYTHON_HOST_PLATFORM=platform)
    [wheel] = into.glob(f"*-linux_{machine}.whl")
    tags = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", f"manylinux2014_{machine}", str(wheel)]
    subprocess.run(tags, check=True)  # noqa: S603 (ours)


def main(into: Path, *, is_release: bool) -> None:
    """Make the archives in a directory, which is emptied first."""
    at_s = made_at_s()
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as work:
        source = Path(work, "source")
        source.mkdir()
        copy_sources(source)
        build(source, into, at_s, ["sdist"] if is_release else ["sdist", "wheel"])
        for machine in MACHINES if is_release else ():
            build_for(machine, source, into, at_s)
    [archive] = into.glob("*.tar.gz")
    pack_again(archive, at_s)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), is_release="--release" in sys.argv)
