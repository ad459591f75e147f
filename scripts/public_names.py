"""The public interface: the modules that applications import from. Their `__all__` lists the names.

Each public name has exactly one module here. The site's reference has a page for each module, a test checks that pages
and examples import from nowhere else, and another one that every name is documented.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PUBLIC_MODULES = {
    "kafka2011": "Producers, consumers, administration, settings, errors",
    "kafka2011.aio": "Clients for asyncio",
    "kafka2011.admin": "What `Admin` returns and raises",
    "kafka2011.events": "Events with Avro schemas",
    "kafka2011.audit": "Counting events, and comparing the counts",
    "kafka2011.collect": "Publishing log lines",
    "kafka2011.mirror": "Copying topics to another cluster",
    "kafka2011.warehouse": "Tables of topics",
    "kafka2011.reports": "Reports on Spark",
    "kafka2011.spark": "The Spark source and sink",
    "kafka2011.metrics": "Metrics of an application's clients",
    "kafka2011.certificates": "Certificates for a cluster of your own",
    "kafka2011.testing": "Clusters for tests of applications",
}
"""Module to what it is for, in the order in which the reference shows them."""

ENTRY_POINT = "kafka2011.__main__"
"""The module that a file for spark-submit imports `main` from; the command line is its interface."""

RETURNED = {
    "kafka2011.FetchedSet",
    "kafka2011.MessageStream",
    "kafka2011.audit.AuditCounter",
    "kafka2011.events.KnownSchemas",
}
"""Classes of which the package makes the objects, so that the parameters of the class are its own affair."""

HIDDEN_MEMBERS = {"close_at_exit", "forget_after_fork"}
"""Members that only the package itself calls, in whichever class."""

SHOWN_MEMBERS: dict[str, tuple[str, ...]] = {
    "kafka2011.MessageStream": (
        "arrow",
        "batches",
        "close",
        "count_in_hand_as_done",
        "poll",
        "poll_arrow",
        "poll_list",
        "sets",
    ),
    "kafka2011.SimpleConsumer": (
        "arrow",
        "close",
        "fetch",
        "get_many_offsets_before",
        "get_offsets_before",
        "multifetch",
        "of",
    ),
    "kafka2011.Counts": (),
    "kafka2011.ZkClient": (),
    "kafka2011.audit.AuditCounter": ("close", "count", "count_messages", "counts", "report"),
    "kafka2011.audit.AuditedConsumer": ("batches", "close", "commit"),
    "kafka2011.audit.AuditReader": ("read",),
    "kafka2011.audit.AuditScan": (),
    "kafka2011.audit.Ledger": ("add", "accounts", "missing", "tiers", "topics"),
    "kafka2011.audit.ReceivedReports": ("add", "topics"),
}
"""The public members of classes that also have some for other parts of the package; all members of the others."""

CONSTANTS = {
    "kafka2011.ANY_PARTITION": "In a produce request, lets the broker pick a partition at random.",
    "kafka2011.EARLIEST": "As a time in an offsets request, means the start of the oldest segment.",
    "kafka2011.LATEST": "As a time in an offsets request, means the flushed end of the log.",
    "kafka2011.collect.DEFAULTS": "Default settings of a collector's producer, which is asynchronous and confirms.",
}
"""Public values that are neither classes nor functions, and their descriptions."""


class PublicName(NamedTuple):
    """Something public that is called or read: its full name, and itself."""

    path: str
    value: Any

    @property
    def doc(self) -> str:
        """Its docstring; of a class, the class's own."""
        return (self.value.__doc__ if inspect.isclass(self.value) else inspect.getdoc(self.value)) or ""


def is_constructed(path: str) -> bool:
    """Say whether applications make objects of the class with this full name."""
    return path not in RETURNED and SHOWN_MEMBERS.get(path) != ()


def members_of(path: str, owner: type) -> Iterator[PublicName]:
    """Yield the public methods and properties that a class defines itself."""
    shown = SHOWN_MEMBERS.get(path)
    for name, member in vars(owner).items():
        if name.startswith("_") or name in HIDDEN_MEMBERS or (shown is not None and name not in shown):
            continue
        called = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if isinstance(called, property) or inspect.isfunction(called):
            yield PublicName(f"{path}.{name}", called)
