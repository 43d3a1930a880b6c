"""What an intake says of itself, and how it is read again."""

from __future__ import annotations

import json

import pytest

from aqueduct_core.errors import AuthFailed
from aqueduct_core.flight.error_codec import ErrorForm
from aqueduct_core.flight.status import CursorOwner, IntakeStatus
from aqueduct_core.flight.subscription_status import EndpointState, Failure, SubscriptionStatus
from tests.core.flight.hosted import MemoryHost


def test_a_status_comes_back_from_its_json_and_unknown_keys_do_not_matter() -> None:
    status = MemoryHost().status()
    data = json.loads(json.dumps(status.to_json() | {"invented": "later"}))
    assert IntakeStatus.from_json(data) == status


def test_the_state_of_subscriptions_comes_back_from_its_json() -> None:
    error = AuthFailed("REJECTED", "no", "Ask")
    state = SubscriptionStatus(
        5, 1, 2, (Failure("a", "cancelled", "why"),), 3,
        (EndpointState("a:1", True, 1), EndpointState("b:2", False, 7, ErrorForm.of(error), True)),
    )  # fmt: skip
    back = SubscriptionStatus.from_json(state.to_json())
    assert back.to_json() == state.to_json()
    assert back.failed[0].channel == "a"
    assert str(back.endpoints[1].error) == str(error)
    assert SubscriptionStatus.from_json({}) == SubscriptionStatus()


def test_what_an_older_intake_leaves_out_has_a_default() -> None:
    least = {
        "id": "a", "epoch": 1, "ends": [1], "starts": [0], "committed": {}, "listen": "",
        "flight": "h:1", "pid": 7,
    }  # fmt: skip
    status = IntakeStatus.from_json(least)
    assert (status.lease, status.oldest, status.subscriptions) == (None, None, None)
    assert (status.events, status.owners, status.warnings) == ((0, 0), {}, ())


def test_an_error_of_a_newer_intake_is_none_of_ours() -> None:
    data = {"address": "a:1", "error": {"class": "New", "subclass": "", "what": "", "remedy": ""}}
    assert EndpointState.from_json(data).error is None


@pytest.mark.parametrize("data", [None, {}, {"query": 1, "where": "", "since": 0.0}])
def test_what_is_no_owner_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match="no CursorOwner"):
        CursorOwner.from_json(data)
