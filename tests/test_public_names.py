"""The public interface: one import path for each name, and a docstring that a reader of the reference can use."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
from typing import TYPE_CHECKING

import pytest

from scripts.public_names import CONSTANTS, PUBLIC_MODULES, SHOWN_MEMBERS, PublicName, is_constructed, members_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_VERBS = re.compile(
    r"(?:Add|Allow|Announce|Check|Choose|Close|Collect|Commit|Compress|Connect|Consume|Continue|Copie|Copy|Count|Create|Decode"
    r"|Delete|Deliver|Describe|Encode|End|Fetch|Fetche|Forget|Give|Hold|I|Join|Leave|Load|Mean|Move|Name|Note|Open|Prepare"
    r"|Provide|Publishe|Publish|Queue|Read|Receive|Register|Remove|Report|Request|Restore|Return|Run|Save|Say|Send|Set|Show|Sign"
    r"|Speak|Stand|Start|State|Stop|Tell|Turn|Wait|Write|Yield|Wrap)s? "
)
"""How a docstring begins: "Return the ...", "Holds the ...". Another verb is added here, a noun is not."""

_PLAIN = {
    "broker_id",
    "clock",  # tests pass one, applications never do
    "config",
    "group",
    "host",
    "key",
    "message",
    "messages",
    "offset",
    "offsets",
    "partition",
    "partitions",
    "payload",
    "port",
    "topic",
    "topic_filter",
    "topics",
    "zk_connect",
}
"""Parameters whose name and type say enough: the field's words, as README and how-to pages use them."""

FIXTURES = "kafka2011.testing.kafka2011_"
"""Their parameters are other fixtures."""

_UNITS = re.compile(r"_(?:ms|us|s|bytes|messages)$")
"""The end of a parameter that is a number: its unit."""


def documented() -> Iterator[PublicName]:
    """Yield all classes and functions of the public modules, and the members of the classes."""
    for module in PUBLIC_MODULES:
        for name in importlib.import_module(module).__all__:
            value = getattr(importlib.import_module(module), name)
            if inspect.isclass(value):
                yield PublicName(f"{module}.{name}", value)
                yield from members_of(f"{module}.{name}", value)
            elif callable(value):
                yield PublicName(f"{module}.{name}", value)


DOCUMENTED = sorted(documented(), key=lambda item: item.path)


def test_the_interface_is_found() -> None:
    """A rule that found nothing to check would hold."""
    paths = {item.path for item in DOCUMENTED}
    assert len(paths) > 250
    assert {"kafka2011.Producer.send", "kafka2011.audit.watermark", "kafka2011.testing.kafka2011_cluster"} <= paths
    assert all(any(path.startswith(f"{name}.") for path in paths) for name, shown in SHOWN_MEMBERS.items() if shown)


def test_each_name_has_one_place() -> None:
    """No object is public in two modules."""
    homes: dict[int, str] = {}
    for module in PUBLIC_MODULES:
        for name in importlib.import_module(module).__all__:
            value = getattr(importlib.import_module(module), name)
            if not isinstance(value, int | str):
                assert homes.setdefault(id(value), module) == module, name


@pytest.mark.parametrize("item", DOCUMENTED, ids=lambda item: item.path)
def test_a_docstring_begins_with_a_sentence(item: PublicName) -> None:
    """Its first line begins with a verb and ends with a full stop, or with a colon before an example."""
    first, *_ = item.doc.splitlines() or [""]
    assert _VERBS.match(first), first
    assert first.endswith((".", ":")), first


def parameters_of(called: Callable[..., object]) -> Iterator[inspect.Parameter]:
    """Yield what a caller passes."""
    for parameter in inspect.signature(called).parameters.values():
        if parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD} and parameter.name not in {
            "self",
            "cls",
        }:
            yield parameter


def is_plain_class(value: object) -> bool:
    """Say whether a class is called as its base is: its fields, or Python's own, are its parameters."""
    return inspect.isclass(value) and (
        issubclass(value, tuple | BaseException | enum.Enum)
        or dataclasses.is_dataclass(value)
        or "__init__" not in vars(value)
    )


@pytest.mark.parametrize(
    "item",
    [item for item in DOCUMENTED if not isinstance(item.value, property) and not is_plain_class(item.value)],
    ids=lambda item: item.path,
)
def test_parameters_are_explained(item: PublicName) -> None:
    """Each parameter is named in the docstring, has its unit in its name, or is one of the field's words."""
    if not is_constructed(item.path) or item.path.startswith(FIXTURES):
        return
    for parameter in parameters_of(item.value):
        name = parameter.name
        said = re.search(rf"\b{re.escape(name)}\b", item.doc) or name in _PLAIN or _UNITS.search(name)
        assert said, f"{item.path} does not explain {name}"


def test_constants_are_described() -> None:
    """What is neither a class nor a function has a line in the list of constants, and nothing else has."""
    constants = {
        f"{module}.{name}"
        for module in PUBLIC_MODULES
        for name in importlib.import_module(module).__all__
        if not callable(getattr(importlib.import_module(module), name))
    }
    assert constants == set(CONSTANTS)


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_a_name_that_a_package_lacks_is_an_attribute_error(module: str) -> None:
    """A package that imports its names when they are first used still says which ones it does not have."""
    with pytest.raises(AttributeError, match="no attribute 'nowhere'"):
        _ = importlib.import_module(module).nowhere


@pytest.mark.parametrize(
    ("former", "name"),
    [
        ("kafka2011.admin.Admin", "kafka2011.Admin"),
        ("kafka2011.audit.complete.complete", "kafka2011.audit.watermark"),
        ("kafka2011.collect.log_handler.KafkaLogHandler", "kafka2011.collect.KafkaLogHandler"),
        ("kafka2011.events.codec.EventEncoder", "kafka2011.events.EventEncoder"),
        ("kafka2011.events.generate.generate", "kafka2011.events.synthetic_events"),
        ("kafka2011.mirror.mirror.Mirror", "kafka2011.mirror.Mirror"),
        ("zk.connect", "kafka2011.connect"),
    ],
)
def test_paths_of_earlier_releases_work(former: str, name: str) -> None:
    """Programs that import what release 0.2.0 taught get the same object."""
    objects = []
    for path in (former, name):
        module, _, attribute = path.rpartition(".")
        objects.append(getattr(importlib.import_module(module), attribute))
    assert objects[0] is objects[1]
