"""Where settings come from: a Java properties file, the environment, and `key=value` on the command line."""

from __future__ import annotations

import difflib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import javaproperties

from kafka2011.config.service_links import without_service_links
from kafka2011.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ENVIRONMENT_PREFIX = "KAFKA2011_"
"""The start of the name of every environment variable that is a setting."""

logger = logging.getLogger(__name__)


class GivenSetting(NamedTuple):
    """One key with its value, and where it was found."""

    key: str
    value: object
    source: str


def from_file(path: Path | str) -> list[GivenSetting]:
    """Read a properties file as Java does. Raises ConfigError when it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            properties = javaproperties.load(file)
    except OSError as error:
        raise ConfigError(f"cannot read the settings in {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not a properties file: {error}") from error
    return [GivenSetting(key, value, str(path)) for key, value in properties.items()]


def from_environment(
    environ: Mapping[str, str], variables: Mapping[str, str], others: Iterable[str]
) -> list[GivenSetting]:
    """Return the settings that an environment has; `variables` gives the key of each name.

    Raises ConfigError for a KAFKA2011_ variable that is neither among these nor among the `others`. Variables that
    Kubernetes or Docker have set for a service of that name are ignored.
    """
    others = set(others)
    given = []
    settings, links = without_service_links(environ, ENVIRONMENT_PREFIX)
    if links:
        logger.debug("ignored environment variables, set by Kubernetes or Docker for a service: %s", ", ".join(links))
    for name, value in settings.items():
        if name in variables:
            given.append(GivenSetting(variables[name], value, f"environment variable {name}"))
        elif name not in others:
            near = difflib.get_close_matches(name, [*variables, *others], n=1, cutoff=0.5)
            hint = f": did you mean {near[0]}?" if near else ""
            raise ConfigError(f"unknown setting in the environment variable {name}{hint}")
    return given


def from_overrides(overrides: Iterable[str], option: str = "--override") -> list[GivenSetting]:
    """Split `key=value` texts, the values of a command's option. Raises ConfigError for one without an equals sign."""
    given = []
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{option} {text!r} is not key=value")
        given.append(GivenSetting(key.strip(), value, f"{option} {text}"))
    return given
