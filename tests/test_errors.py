"""Errors go from process to process, as those of worker pools do."""

import pickle

import pytest

from evensong.client.message import MessageId
from evensong.errors import (
    ConnectionLost,
    EvensongError,
    InvariantBroken,
    MalformedFrame,
    OutcomeUnknown,
    TooLarge,
)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLost("the daemon is gone"),
        InvariantBroken("aru", "fell"),
        MalformedFrame("token"),
        OutcomeUnknown(MessageId(1, 2, 3, 4), "the daemon is gone"),
        OutcomeUnknown("order-17", "the daemon is gone"),
        TooLarge(17, 16),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_arrives_as_it_left(error: EvensongError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))
