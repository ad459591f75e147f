"""The image with Spark and Java, and the wheels that images are made of."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
IMAGE = "kafka2011:proof"
SPARK_IMAGE = "kafka2011-spark:proof"
BUILD_TIMEOUT_S = 1500
RUN_TIMEOUT_S = 300

pytestmark = pytest.mark.timeout(BUILD_TIMEOUT_S + RUN_TIMEOUT_S)

# Runs in the image: brokers and a ZooKeeper of its own, and a batch that reads what was published.
PROGRAM = """
from pyspark.sql import SparkSession
from kafka2011 import LocalCluster, Producer

with LocalCluster(brokers=2, properties={"log.flush.interval": 1}) as cluster:
    with Producer({"zk.connect": cluster.zk_connect, "confirm": "true"}) as producer:
        producer.send("views", [b"one", b"two"])
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    views = spark.read.format("kafka2011").option("zk.connect", cluster.zk_connect).option("subscribe", "views").load()
    print("read:", *sorted(bytes(row.value).decode() for row in views.collect()))
    spark.stop()
"""


@pytest.fixture(scope="module")
def images() -> Iterator[None]:
    """Build both images, with all that they are built from, and take them away again; skip where there is no Docker."""
    answer = subprocess.run(["docker", "info"], capture_output=True, text=True, timeout=30, check=False)
    if answer.returncode != 0:
        pytest.skip(f"docker info: {answer.stderr.strip()}")
    built = subprocess.run(
        [ROOT / "scripts" / "images.sh", "spark"],
        env={**os.environ, "KAFKA_IMAGE": IMAGE},
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    yield
    subprocess.run(["docker", "image", "rm", SPARK_IMAGE, IMAGE], capture_output=True, check=False)


@pytest.mark.usefixtures("images")
def test_spark_reads_a_topic() -> None:
    """Spark in the image finds the format, and reads what a broker in the image keeps."""
    command = ["docker", "run", "--rm", "--interactive", "--env", "SPARK_LOCAL_IP=127.0.0.1", SPARK_IMAGE]
    done = subprocess.run(
        [*command, "python3", "-"], input=PROGRAM, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "read: one two" in done.stdout


@pytest.mark.usefixtures("images")
def test_wheels_without_the_image_s_python(tmp_path: Path) -> None:
    """Where this machine has another Python than the image, wheels are made in a container of it, compiled ones too."""
    project = tmp_path / "project"
    shutil.copytree(ROOT, project, ignore=shutil.ignore_patterns(".*", "build", "*.so"))
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("python3", "python3.11"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    made = subprocess.run(
        [project / "scripts" / "wheels.sh"],
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert "in a container" in made.stderr
    [compiled] = (project / "build" / "wheels").glob("crcmod-*-cp311-*.whl")
    assert compiled.stat().st_uid == os.geteuid()
    assert list((project / "build" / "project").glob("kafka2011-*-abi3-*.whl"))
