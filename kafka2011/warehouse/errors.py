"""What can go wrong between brokers and tables, beyond the errors that all of the package shares."""

from __future__ import annotations

from kafka2011.errors import KafkaError


class WarehouseError(KafkaError):
    """A table cannot be read, written or committed to; names its topic and path."""


class MalformedCommitError(WarehouseError):
    """What a table says of a commit is not what this package writes."""


class OvertakenError(WarehouseError):
    """Another loader has committed first: nothing of this load is in the table."""


class GivenUpError(WarehouseError):
    """A cleaning has given up the files of a commit before it was made: nothing of it is in the table."""


class CoverageError(WarehouseError):
    """What was written does not cover the range that was to be loaded, so nothing was committed."""


class ReplacedLogError(WarehouseError):
    """A partition's log is not the one that the table was loaded from."""


class RolledBackError(WarehouseError):
    """A table was rolled back to an earlier snapshot, and somebody has to say how loading goes on."""


class TierTakenError(WarehouseError):
    """Another table reports as this tier of the audit; nothing is loaded under its name."""


class UnknownOutcomeError(WarehouseError):
    """A commit was sent and its answer lost: it is in the table, or not, or will be. Its files must stay."""
