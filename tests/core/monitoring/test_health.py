"""Whether an intake is ready, and why it is not."""

from __future__ import annotations

import pytest

from aqueduct_core.errors import ConnectFailed
from aqueduct_core.flight.error_codec import ErrorForm
from aqueduct_core.flight.stalls import Stall
from aqueduct_core.flight.subscription_status import EndpointState, SubscriptionStatus
from aqueduct_core.monitoring.health import reasons_against, troubles
from tests.core.monitoring.statuses import status


def dialling(*endpoints: EndpointState, complete: bool = False) -> dict[str, object]:
    return {"subscriptions": SubscriptionStatus(endpoints=endpoints), "complete": complete}


def failed(address: str) -> EndpointState:
    error = ConnectFailed("REFUSED", f"nobody listens at {address}", "Start it")
    return EndpointState(address, False, 3, ErrorForm.of(error))


@pytest.mark.parametrize(
    ("given", "reasons"),
    [
        ({}, []),
        ({"draining": True}, ["it is ending"]),
        ({"full": True}, ["the spool is full: producers wait until a query commits"]),
        (dialling(EndpointState("a:1", True)), []),
        (dialling(EndpointState("a:1")), ["endpoint a:1 is not connected"]),
        (
            dialling(EndpointState("a:1", True), failed("b:2")),
            ["endpoint b:2 is not connected: nobody listens at b:2"],
        ),
        (dialling(EndpointState("a:1"), complete=True), []),
        ({"draining": True, "full": True}, ["it is ending", "the spool is full: producers wait"]),
    ],
)
def test_an_intake_says_why_it_is_not_ready(given: dict[str, object], reasons: list[str]) -> None:
    found = reasons_against(status(**given))
    assert len(found) == len(reasons)
    assert all(one.startswith(other) for one, other in zip(found, reasons, strict=True))


def test_what_stands_still_is_told_in_its_own_words() -> None:
    full = Stall.of("disk-full", "spool/orders")
    calm = Stall.of("no-producer", "spool/orders", address="127.0.0.1:4433")
    assert troubles(status(full=True, stalls=(full, calm))) == [f"{full.what}. {full.remedy}"]
    assert troubles(status(stalls=(calm,))) == []
    assert troubles(status(draining=True)) == ["it is ending"]
