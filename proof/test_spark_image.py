"""The image with Spark and Java, built and used."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

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


def test_it_reads_a_topic() -> None:
    """Spark in the image finds the format, and reads what a broker in the image keeps."""
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
    command = [
        "docker",
        "run",
        "--rm",
        "--interactive",
        "--env",
        "SPARK_LOCAL_IP=127.0.0.1",
        SPARK_IMAGE,
        "python3",
        "-",
    ]
    done = subprocess.run(command, input=PROGRAM, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "read: one two" in done.stdout
