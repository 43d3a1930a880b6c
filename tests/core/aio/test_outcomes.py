"""Outcomes as values: they can be pickled, and say which channel they are of."""

from __future__ import annotations

import pickle

import pytest

from aqueduct_core.aio import outcomes
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.errors import ChannelEnded, SinkFailed


@pytest.mark.parametrize(
    "outcome",
    [
        outcomes.Finished("channel 8"),
        outcomes.Cancelled("channel 8 'cpu'"),
        outcomes.ReceiverClosed("channel 8", 3),
        outcomes.LostInTransit("channel 8"),
        outcomes.ConnectionLost("channel 8", 256, "token", by_peer=True),
        outcomes.ConnectionLost("channel 8", 3, "x", by_peer=True, origin=CloseOrigin.TRANSPORT),
        outcomes.ConnectionLost("channel 8", origin=CloseOrigin.STATELESS_RESET),
    ],
)
def test_outcomes_survive_a_pickle_and_name_the_channel(outcome: outcomes.Outcome) -> None:
    again = pickle.loads(pickle.dumps(outcome))
    assert type(again) is type(outcome)
    assert str(again) == str(outcome)
    assert again.channel in str(again)
    if not isinstance(outcome, outcomes.Finished):
        assert isinstance(outcome, ChannelEnded | SinkFailed)
        assert str(outcome).startswith("[AQUEDUCT_")
