"""The environment variables by which a process reaches S3, checked before anything is sent.

Without them the clients of S3 wait for the metadata service of Amazon's machines, and then fail with a text that names
neither S3 nor a variable.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.warehouse.errors import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Mapping

_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_ROLES = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
"""Name a role where a machine of Amazon's does not have one of its own."""
_FILES = {"AWS_CONFIG_FILE": "config", "AWS_SHARED_CREDENTIALS_FILE": "credentials"}
"""Files of profiles, and their names in ~/.aws."""
_NO_METADATA = "AWS_EC2_METADATA_DISABLED"


def endpoint(environment: Mapping[str, str] = os.environ) -> str:
    """Return the URL of another server of S3 than Amazon's, empty for Amazon's."""
    return _first(environment, _ENDPOINTS)


def region(environment: Mapping[str, str] = os.environ) -> str:
    """Return the region, empty where no variable names one."""
    return _first(environment, _REGIONS)


def check_environment(uri: str, environment: Mapping[str, str] = os.environ, home: Path | None = None) -> None:
    """Raise WarehouseError, naming the variables, where a place in S3 cannot be reached for want of them.

    A profile may stand for all of them. A role may stand for the keys; whether this machine has one is not asked.
    """
    if _has_profiles(environment, home or _home()):
        return
    missing = [] if region(environment) else ["AWS_REGION"]
    keys = [name for name in _KEYS if not environment.get(name)]
    has_role = bool(_first(environment, _ROLES))
    no_machine_role = environment.get(_NO_METADATA, "").lower() == "true"
    if len(keys) == 1 or (keys and not has_role and (missing or no_machine_role)):
        missing += keys
    if missing:
        raise WarehouseError(
            f"{uri}: {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set. S3 needs AWS_REGION, and"
            " AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY unless this machine has a role; another server than"
            " Amazon's needs AWS_ENDPOINT_URL too"
        )


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environment[name] for name in names if environment.get(name)), "")


def _has_profiles(environment: Mapping[str, str], home: Path | None) -> bool:
    named = [Path(environment[name]) for name in _FILES if environment.get(name)]
    usual = [home / ".aws" / file for name, file in _FILES.items() if home is not None and not environment.get(name)]
    return any(path.exists() for path in named + usual)


def _home() -> Path | None:
    """Return this user's home directory; None if there is none, as for a user id without an entry in passwd."""
    try:
        return Path.home()
    except RuntimeError:
        return None
