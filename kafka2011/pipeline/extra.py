"""What to say when the packages of an extra are not installed."""

from __future__ import annotations

from kafka2011.errors import KafkaError


class MissingExtraError(KafkaError, ImportError):
    """A package is missing that an extra brings."""


def missing_extra(error: ImportError, extra: str = "pipeline") -> MissingExtraError:
    """Return the error to raise for an import that failed: it names the package, and what to install."""
    package = (error.name or "").partition(".")[0]
    return MissingExtraError(
        f"{package} is not installed: pip install {package} (or '.[{extra}]' in a checkout of kafka2011)", name=package
    )
