"""The error table of 0.7, both ways."""

from __future__ import annotations

import inspect
import pickle
from typing import TYPE_CHECKING

import pytest

from kafka2011 import errors
from kafka2011.errors import BrokerError, ErrorCodes, KafkaError
from zk import errors as zk_errors

if TYPE_CHECKING:
    from types import ModuleType

TABLE = {
    -1: errors.UnknownError,
    1: errors.OffsetOutOfRangeError,
    2: errors.InvalidMessageError,
    3: errors.WrongPartitionError,
    4: errors.InvalidMessageSizeError,
}


@pytest.mark.parametrize(("code", "kind"), TABLE.items())
def test_numbers_become_errors_and_back(code: int, kind: type[BrokerError]) -> None:
    """Each number of 0.7 has one exception, which gives the number back and keeps its text."""
    error = ErrorCodes.error_for(code, "the broker refused a fetch of t-0 at offset 7")
    assert type(error) is kind
    assert ErrorCodes.code_for(error) == error.code == code
    assert str(error) == "the broker refused a fetch of t-0 at offset 7"


@pytest.mark.parametrize("code", [5, 99, -2, -32768, 32767])
def test_an_unknown_number_is_kept(code: int) -> None:
    """A number without a name is an UnknownError that still tells it."""
    error = ErrorCodes.error_for(code, "refused")
    assert type(error) is errors.UnknownError
    assert error.code == code
    assert str(code) in str(error)


@pytest.mark.parametrize("error", [ValueError(), KafkaError(), errors.ProtocolError()])
def test_what_has_no_number_is_answered_as_unknown(error: Exception) -> None:
    """0.7 answers -1 for everything that is not in its table."""
    assert ErrorCodes.code_for(error) == -1


@pytest.mark.parametrize("errors", [errors, zk_errors])
def test_every_error_has_the_one_base(errors: ModuleType) -> None:
    """A caller catches KafkaError and has caught them all, those of the coordination layer too."""
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, BaseException)]
    assert len(kinds) > 10
    assert all(issubclass(kind, KafkaError) for kind in kinds)


def test_errors_survive_pickling() -> None:
    """They cross process borders, as Spark's executors need it, with their numbers."""
    copy = pickle.loads(pickle.dumps(ErrorCodes.error_for(99, "refused")))
    assert (type(copy), copy.code, str(copy)) == (errors.UnknownError, 99, "refused (error code 99)")
