"""What `make quick` runs: the tests that reach what has changed, the nearest first."""

from __future__ import annotations

import pytest

from scripts.quick import nearest_tests

SOURCES = {
    "zk.errors": "",
    "kafka2011.disk": "from zk import errors",
    "kafka2011.log": "",
    "kafka2011.log.log": "import kafka2011.disk\nfrom zk.errors import KafkaError",
    "kafka2011.log.append": "",
    "tests.log.conftest": "",
    "tests.support.disks": "from kafka2011 import disk",
    "tests.test_disk": "def test():\n    import kafka2011.disk",
    "tests.log.test_log": "from kafka2011.log.log import Log\nDATA = 'bytes.toml'",
    "tests.log.test_disks": "from tests.support.disks import Disk",
    "tests.log.test_types": "if TYPE_CHECKING:\n    from kafka2011.log.log import Log",
    "integration.test_all": "import kafka2011.disk",
}


@pytest.mark.parametrize(
    ("changed", "files"),
    [
        ("kafka2011/log/log.py", ["tests/log/test_log.py"]),
        ("kafka2011/disk.py", ["tests/test_disk.py", "tests/log/test_disks.py", "tests/log/test_log.py"]),
        ("zk/errors.py", ["tests/log/test_log.py", "tests/test_disk.py", "tests/log/test_disks.py"]),
        ("tests/support/disks.py", ["tests/log/test_disks.py"]),
        ("tests/log/test_log.py", ["tests/log/test_log.py"]),
        ("tests/log/test_gone.py", []),
        ("tests/planted/bytes.toml", ["tests/log/test_log.py"]),
        ("kafka2011/log/_append.c", ["tests/log/test_log.py"]),
        ("docs/log.md", []),
        ("tests/log/conftest.py", ["tests/log/test_disks.py", "tests/log/test_log.py", "tests/log/test_types.py"]),
    ],
)
def test_the_nearest_tests_come_first(changed: str, files: list[str]) -> None:
    """Imports inside functions count, and those for types alone do not."""
    assert nearest_tests([changed], SOURCES) == files
