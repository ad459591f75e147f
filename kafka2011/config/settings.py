"""The base of every component's settings: one field for each setting, read, checked and completed in one place.

A field's name is the 0.7 key with underscores for dots (`log.retention.hours`, `log_retention_hours`) and a camelCase
key in snake_case (`queue.enqueueTimeout.ms`, `queue_enqueue_timeout_ms`). In the environment it is the field's name in
capitals after `KAFKA2011_`.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from kafka2011.c_code import PURE_VARIABLE
from kafka2011.config.later_names import LATER_NAMES
from kafka2011.config.sources import ENVIRONMENT_PREFIX, GivenSetting, from_environment, from_file, from_overrides
from kafka2011.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from kafka2011.config.kinds import Kind

logger = logging.getLogger(__name__)

_METADATA = "setting"


@dataclass(frozen=True, slots=True)
class Fallback:
    """Where a setting that was not given gets its value, and how the documentation describes it."""

    text: str
    value: Callable[[Any], Any]


def same_as(key: str) -> Fallback:
    """Take the value of another setting."""
    name = key.replace(".", "_")
    return Fallback(f"`{key}`", lambda config: getattr(config, name))


class Setting(NamedTuple):
    """One setting of a component: its names, how to read it, its default and what it does."""

    name: str
    key: str
    kind: Kind[Any]
    default: Any
    fallback: Fallback | None
    doc: str

    @property
    def variable(self) -> str:
        """The setting's name in the environment."""
        return ENVIRONMENT_PREFIX + self.name.upper()

    @property
    def default_text(self) -> str:
        """The default as the documentation shows it."""
        if self.fallback is not None:
            return self.fallback.text
        if self.default is None:
            return "must be given"
        text = self.kind.write(self.kind.read(self.default))
        return f"`{text}`" if text else ""


def setting(default: Any, kind: Kind[Any], doc: str, *, key: str = "", fallback: Fallback | None = None) -> Any:
    """Declare one setting as a dataclass field; its default may be text too.

    Without a default or a fallback, it must be given.
    `key` is needed only where it is not the field's name with dots.
    """
    return field(default=default, metadata={_METADATA: (key, kind, fallback, doc)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Base of all settings. However they are made, they are checked; ConfigError names the key."""

    COMPONENT: ClassVar[str] = ""
    """What the settings are for, in error messages and in the documentation."""

    IGNORED: ClassVar[Mapping[str, str]] = {}
    """Keys of 0.7 that mean nothing here, and why; they are accepted, with one logged line."""

    def __post_init__(self) -> None:
        declared = self.settings()
        for item in declared:
            value = getattr(self, item.name)
            if value is not None:
                object.__setattr__(self, item.name, _read(item, value))
        for item in declared:
            if getattr(self, item.name) is None:
                if item.fallback is None:
                    raise ConfigError(
                        f"{item.key} must be given for the {self.COMPONENT}"
                        f" (as {item.variable} when it comes from the environment)"
                    )
                object.__setattr__(self, item.name, _read(item, item.fallback.value(self)))
        self._check()

    def _check(self) -> None:
        """Check settings against one another. Raises ConfigError."""

    @classmethod
    def settings(cls) -> list[Setting]:
        """Return all settings of this component, in the order of the documentation."""
        settings = []
        for item in fields(cls):
            key, kind, fallback, doc = item.metadata[_METADATA]
            settings.append(Setting(item.name, key or item.name.replace("_", "."), kind, item.default, fallback, doc))
        return settings

    @classmethod
    def of(cls, settings: Mapping[str, object] | Self | None = None) -> Self:
        """Return settings as they are, or made from a dict with 0.7's dotted keys. Raises ConfigError."""
        if isinstance(settings, cls):
            return settings
        if isinstance(settings, Settings):
            raise ConfigError(f"these are settings of the {settings.COMPONENT}, not of the {cls.COMPONENT}")
        return cls.from_properties(settings or {})

    @classmethod
    def from_properties(cls, properties: Mapping[str, object], source: str = "") -> Self:
        """Make settings from 0.7's dotted keys; values are text or Python's own, None for not given.

        Raises ConfigError, starting with `source` when there is one, for a bad value or an unknown key, and TypeError
        for what is no mapping.
        """
        if not isinstance(properties, Mapping):
            kind = type(properties).__name__
            raise TypeError(
                f"settings of the {cls.COMPONENT} are a dict with dotted keys or {cls.__name__}, not {kind}"
            )
        return cls._from_given(GivenSetting(key, value, source) for key, value in properties.items())

    @classmethod
    def from_sources(
        cls,
        file: Path | str | None = None,
        environ: Mapping[str, str] | None = None,
        overrides: Iterable[str] = (),
        *,
        defaults: Mapping[str, object] | None = None,
        option: str = "--override",
    ) -> Self:
        """Make settings from a properties file, then the environment, then `key=value` overrides; the last one wins.

        `defaults` stand in for the component's own. Raises ConfigError naming the file, the variable, or the override
        that is wrong as a value of `option`.
        """
        given = [GivenSetting(key, value, "") for key, value in (defaults or {}).items()]
        if file is not None:
            given += from_file(file)
        given += from_environment(environ or {}, cls._variables(), cls._variables_of_others())
        given += from_overrides(overrides, option)
        return cls._from_given(given)

    @classmethod
    def _from_given(cls, given: Iterable[GivenSetting]) -> Self:
        known = {item.key: item for item in cls.settings()}
        values: dict[str, Any] = {}
        ignored: dict[str, None] = {}
        for entry in given:
            item = known.get(entry.key)
            if item is not None:
                if entry.value is not None:
                    values[item.name] = _read(item, entry.value, entry.source)
            elif entry.key in cls.IGNORED:
                ignored[entry.key] = None
            else:
                raise ConfigError(_prefix(entry.source) + cls._unknown(entry.key, list(known)))
        if ignored:
            reasons = "; ".join(f"{key} ({cls.IGNORED[key]})" for key in ignored)
            logger.warning("settings of Kafka 0.7 that mean nothing to this %s: %s", cls.COMPONENT, reasons)
        return cls(**values)

    @classmethod
    def _unknown(cls, key: str, known: list[str]) -> str:
        text = f"unknown setting {key!r} of the {cls.COMPONENT}"
        later = LATER_NAMES.get(key)
        if later is not None:
            here = " or ".join(repr(name) for name in later if name in known)
            why = (
                f"a name of Kafka 0.8 or later, here it is {here}"
                if here
                else "there is no such thing here, it came with Kafka 0.8 or later"
            )
            return f"{text}: {why} (docs/explanation/coming-from-later-kafka.md)"
        near = difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.5)
        if near:
            return f"{text}: did you mean {near[0]!r}?"
        return text

    @classmethod
    def _variables(cls) -> dict[str, str]:
        variables = {item.variable: item.key for item in cls.settings()}
        ignored = {ENVIRONMENT_PREFIX + key.replace(".", "_").upper(): key for key in cls.IGNORED}
        return variables | ignored

    @classmethod
    def _variables_of_others(cls) -> set[str]:
        """Names that are not mistakes here, since one environment may serve several components."""
        names = {PURE_VARIABLE}
        unseen: list[type[Settings]] = [Settings]
        while unseen:
            component = unseen.pop()
            names.update(component._variables())
            unseen += component.__subclasses__()
        return names


def _read(item: Setting, value: object, source: str = "") -> Any:
    try:
        return item.kind.read(value)
    except ValueError as error:
        raise ConfigError(f"{_prefix(source)}{item.key}: {error}") from None  # whose text is all that it says


def _prefix(source: str) -> str:
    return f"{source}: " if source else ""
