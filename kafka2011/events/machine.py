"""The state of this machine, as a server event."""

from __future__ import annotations

from typing import Any

from kafka2011.errors import missing_extra

try:
    import psutil
except ImportError as error:
    raise missing_extra(error) from error


class Machine:
    """Measures this machine. The first CPU measurement covers the time since this object was created."""

    def __init__(self, disk: str = "/") -> None:
        self._disk = disk
        psutil.cpu_percent()

    def stats(self) -> dict[str, Any]:
        """Return the fields of a `ServerStats` after the header; requests are 0, since the machine serves none."""
        memory = psutil.virtual_memory()
        disk = psutil.disk_usage(self._disk)
        return {
            "cpu_percent": psutil.cpu_percent(),
            "memory_used_bytes": memory.total - memory.available,
            "memory_total_bytes": memory.total,
            "disk_used_bytes": disk.used,
            "disk_total_bytes": disk.total,
            "requests": 0,
            "errors": 0,
        }
