"""Which extras each command needs, all together: who installs one should not meet the next one missing."""

from __future__ import annotations

from kafka2011.errors import EXTRA_OF, MissingExtraError, missing_extra

EXTRAS = {
    "report": "pipeline,spark,warehouse",
    "tables": "load",
    "export": "warehouse",
    "demo": "demo",
}
"""Of commands whose extra is not simply that of the package that is missing. Those of `load` depend on its master."""


def missing_for(command: str, error: ImportError) -> MissingExtraError | None:
    """Return what to tell whoever called a command; None if it is no package of an extra that is missing."""
    package = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError | MissingExtraError) or package not in EXTRA_OF:
        return None
    if isinstance(error, MissingExtraError) and command not in EXTRAS:
        return error  # it says what to install
    return missing_extra(error, EXTRAS.get(command, ""))
