"""The image of brokers and tools: what it holds and says of itself, and what is left behind by building it."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import subprocess
from typing import TYPE_CHECKING

import pytest

from integration.compose.clusters import ROOT, docker, why_no_docker

if TYPE_CHECKING:
    from collections.abc import Iterator


# The first test may have to wait for the images that this one is built from.
pytestmark = pytest.mark.timeout(600)

IMAGE = "kafka2011:test"
IMAGES = ROOT / "scripts" / "images.sh"


def run_images(name: str, *arguments: str) -> None:
    done = subprocess.run(
        [IMAGES, *arguments],
        env={**os.environ, "KAFKA_IMAGE": name},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def image() -> str:
    reason = why_no_docker()
    if reason is not None:
        pytest.skip(reason)
    run_images(IMAGE)
    return IMAGE


@pytest.fixture
def scratch(image: str) -> Iterator[str]:
    """Give a name for an image, which is taken away afterwards."""
    name = f"kafka2011-test-{secrets.token_hex(4)}:1"
    yield name
    subprocess.run(["docker", "image", "rm", "--force", name], capture_output=True, check=False)


def commit(image: str, name: str) -> str:
    """Make an image of its own with the same content, give it a name, and return its id."""
    container = docker("create", image).strip()
    try:
        return docker("commit", "--message", secrets.token_hex(4), container, name).strip()
    finally:
        docker("rm", container)


def is_used(image_id: str) -> bool:
    return docker("container", "ls", "--all", "--quiet", "--filter", f"ancestor={image_id}") != ""


def is_there(image_id: str) -> bool:
    return subprocess.run(["docker", "image", "inspect", image_id], capture_output=True, check=False).returncode == 0


def test_it_holds_every_package(image: str) -> None:
    """All packages of the project are installed in it."""
    program = "from importlib.metadata import files; print(*{path.parts[0] for path in files('kafka2011')})"
    command = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "python", image, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) >= {"kafka2011", "pyspark_kafka2011", "zk"}


def test_it_says_what_it_is(image: str) -> None:
    """A broker's port and title stand in it, and nothing that is true only of the image it was built from."""
    [found] = json.loads(docker("image", "inspect", image))
    assert set(found["Config"]["ExposedPorts"]) == {"6667/tcp"}
    assert found["Config"]["Labels"]["org.opencontainers.image.title"] == "kafka2011"
    assert not [label for label in found["Config"]["Labels"] if "stand-in" in label]
    assert "stand-in" not in found.get("Comment", "")


def test_building_leaves_no_image_without_a_name(image: str) -> None:
    """The stage that holds compilers and wheels, from which the next build goes on, has a name.

    What a container was made from is left alone: it may be of a cluster that somebody else runs.
    """
    options = ["--quiet", "--filter", "dangling=true", "--filter", f"before={image}"]
    with (ROOT / "build" / "images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # nobody builds meanwhile
        for stage in ("build", "runtime"):
            unnamed = docker("image", "ls", *options, "--filter", f"label=kafka2011.stage={stage}").split()
            assert [image_id for image_id in unnamed if not is_used(image_id)] == []


def test_what_was_replaced_goes(image: str, scratch: str) -> None:
    """An image that lost its name to a newer one is removed, unless a container still uses it."""
    former = commit(image, scratch)
    used = docker("create", scratch).strip()
    try:
        current = commit(image, scratch)
        run_images(scratch, "tidy")
        assert is_there(former)
    finally:
        docker("rm", used)
    run_images(scratch, "tidy")
    assert not is_there(former)
    assert is_there(current)
