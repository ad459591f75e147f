"""Loads what a setting names as `module:Class`: partitioners, encoders, compressors."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kafka2011.errors import ConfigError


def load_implementation(key: str, name: str, *methods: str) -> Any:
    """Import `module:Class`, make one without arguments, and return it.

    Raises ConfigError, starting with the setting's `key`, when there is no such module or class, when it cannot be
    made, or when it lacks one of the `methods`.
    """
    module_name, _, class_name = name.partition(":")
    try:
        module = import_module(module_name)
    except Exception as error:
        raise ConfigError(f"{key}: module {module_name!r} of {name!r} cannot be imported: {error}") from error
    made: Any = getattr(module, class_name, None)
    if made is None:
        raise ConfigError(f"{key}: module {module_name!r} has no {class_name!r}")
    try:
        implementation = made()
    except Exception as error:
        raise ConfigError(f"{key}: {name!r} cannot be created without arguments: {error}") from error
    missing = [method for method in methods if not callable(getattr(implementation, method, None))]
    if missing:
        raise ConfigError(f"{key}: {name!r} has no method {', '.join(missing)}")
    return implementation
