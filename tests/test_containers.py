"""Dockerfile, docker-compose.yml and what a build sees fit together, and fit the project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMPOSE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

TAGGED = f"kafka2011:{PROJECT['project']['version']}"


def test_the_images_hold_every_package() -> None:
    """What is in the wheel is sent to the build, and copied there."""
    packages = {name.partition(".")[0] for name in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert packages >= {"kafka2011", "pyspark_kafka2011", "zk"}
    seen = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for package in packages:
        assert f"!{package}" in seen
        assert f"COPY {package} /source/{package}\n" in DOCKERFILE
    sums = (ROOT / "scripts" / "sources.sh").read_text(encoding="utf-8")
    for name in ("LICENSE", "README.md", "pyproject.toml", "setup.py", *packages):
        assert f"!{name}" in seen
        assert f" {name} " in sums


def test_the_image_has_the_project_s_version() -> None:
    """What Compose builds and runs, and what the documents call it, carries the version."""
    assert f"image: ${{KAFKA_IMAGE:-{TAGGED}}}" in COMPOSE
    all_in_one = TAGGED.replace(":", "-all-in-one:")
    for path, named in (
        ("docs/how-to/containers.md", TAGGED),
        ("docs/how-to/testing.md", all_in_one),
        ("integration/images/README.md", TAGGED),
        ("Dockerfile", TAGGED),
        ("Dockerfile", all_in_one),
    ):
        text = (ROOT / path).read_text(encoding="utf-8")
        assert named in text
        assert set(re.findall(r"\bkafka2011(?:-spark|-all-in-one)?:(\d[\w.]*)", text)) == {
            PROJECT["project"]["version"]
        }


def test_the_zookeeper_in_the_image_is_the_one_beside_it() -> None:
    """`all-in-one` has the ZooKeeper that Compose runs."""
    [image] = re.findall(r"^ARG ZOOKEEPER_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert f"  image: {image}\n" in COMPOSE


def test_the_balancer_goes_before_the_brokers() -> None:
    """Its configuration asks for the variables that Compose gives it, and the documents name its image."""
    configuration = (ROOT / "examples" / "haproxy.cfg").read_text(encoding="utf-8")
    wanted = set(re.findall(r'"\$\{(\w+)\}"', configuration))
    service = COMPOSE.split("\n  balancer:\n")[1].split("\n\n")[0]
    assert (
        wanted
        == set(re.findall(r"^      ([A-Z]\w+): ", service, re.MULTILINE))
        == {"BALANCER", *(f"BROKER_{n}" for n in (1, 2, 3))}
    )
    [image] = re.findall(r"image: (\S+)", service)
    assert f"`{image}`" in (ROOT / "integration" / "images" / "README.md").read_text(encoding="utf-8")


def test_one_service_builds_for_all() -> None:
    """One image is built once, and asked of no registry."""
    assert len(re.findall(r"^ +build:", COMPOSE, re.MULTILINE)) == 1
    assert COMPOSE.count("pull_policy: never") == COMPOSE.count("KAFKA_IMAGE") == 1
    assert f"image: ${{KAFKA_SPARK_IMAGE:-{TAGGED.replace(':', '-spark:')}}}" in COMPOSE


def test_the_readme_names_no_compose_that_a_debian_lacks() -> None:
    """Debian 12 has docker-compose, others `docker compose`: what is to be typed finds the one that is there."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## In containers\n")[1].split("\n## ")[0]
    [typed] = re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert {line.split(" | ")[-1].split()[0] for line in typed.splitlines()} == {"make", "scripts/compose.sh"}


def test_down_stops_every_profile() -> None:
    """`make down` names all that there are; the page has those that may be started."""
    profiles = set(re.findall(r"^ +profiles: \[(\w+)\]$", COMPOSE, re.MULTILINE))
    [named] = re.findall(r"^PROFILES := ([a-z ]+?) *#", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named.split()) == profiles
    page = (ROOT / "docs" / "how-to" / "containers.md").read_text(encoding="utf-8")
    [row] = re.findall(r"^\| `COMPOSE_PROFILES` \|(.*)$", page, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == profiles - {"tools"}


def test_replicas_are_one_broker() -> None:
    """Each has a name, a port and a volume of its own, and all of them the id that is begun."""
    services = {name: COMPOSE.split(f"\n  replicated-{name}:\n")[1].split("\n  replicated-")[0] for name in "abc"}
    for name, text in services.items():
        assert f"KAFKA2011_REPLICA_NAME: {name}\n" in text
        assert f'volumes: ["replicated-{name}:/var/lib/kafka2011"]' in text
        assert "KAFKA2011_BROKERID" not in text
    settings = COMPOSE.split("\nx-replica-settings:")[1].split("\n\n")[0]
    [broker] = re.findall(r'KAFKA2011_BROKERID: "(\d+)"', settings)
    assert f'kafka2011 replicas init {broker} a "$$KAFKA2011_LOG_DIR" --new' in COMPOSE
    assert f"""*'"broker": {broker},'*)""" in COMPOSE
