"""What Spark's processes import with the classes that are pickled to them."""

from __future__ import annotations

import subprocess
import sys


def test_executors_import_neither_zookeepers_client_nor_gevent() -> None:
    """Readers and writers hold no session there, and none of the modules that they live in brings one along."""
    modules = ", ".join(f"kafka2011.spark.{name}" for name in ("reader", "sink", "data_source", "stream_reader"))
    program = f"import sys, {modules}; print(sorted({{'kazoo', 'gevent'}} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
