"""Publishes to a cluster what a group had not read yet of brokers that have left it (docs/how-to/operations.md).

    python examples/drain.py LEFT STAYING GROUP

LEFT and STAYING are ZooKeeper addresses: of the brokers that have left, under a path of their own, and of the cluster.
Other groups see messages again that they had read, where they were ahead of GROUP. Run again, it publishes all of them
again.
"""

from __future__ import annotations

import subprocess
import sys

from kafka2011 import Admin

left, staying, group = sys.argv[1:]
replay = [sys.executable, "-m", "kafka2011", "replay", "--zookeeper", left, "--to", staying]

with Admin(staying) as cluster, Admin(left) as leaving:
    committed = cluster.export_offsets(group)
    for topic in sorted(committed.keys() & leaving.topics().keys()):
        for where, _, earliest, latest in leaving.describe_topic(topic):
            if earliest is None or latest is None:
                raise SystemExit(f"the broker of {where} does not answer")
            begin = max(earliest, committed[topic].get(where.znode_name, earliest))
            if begin < latest:
                print(f"{where}: {latest - begin} bytes from offset {begin}", flush=True)
                command = [*replay, topic, "--partition", where.znode_name, "--from", str(begin)]
                subprocess.run(command, check=True)  # noqa: S603
