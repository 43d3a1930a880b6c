"""How intakes are registered where tasks and planner find them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aqueduct_core.errors import IntakeFailed
from aqueduct_spark.intakes.rendezvous import Registration, RendezvousClient, winner
from tests.spark.ground import Ground

HELD = Registration(0, "spool", 2, "h:1", 11, "h:2", "AA")


@pytest.mark.parametrize(
    ("offered", "stands"),
    [
        (replace(HELD, epoch=3, pid=12), True),
        (replace(HELD, epoch=2, pid=12), False),
        (replace(HELD, epoch=1, pid=12), False),
        (replace(HELD, id="other", epoch=9), False),  # of a second new spool, on another host
    ],
)
def test_registrations_are_fenced_by_epoch(offered: Registration, stands: bool) -> None:
    assert winner(HELD, offered) is (offered if stands else HELD)
    assert winner(HELD, offered, replace(HELD, epoch=0)) is (offered if stands else HELD)
    assert winner(None, offered) is offered
    assert winner(HELD, offered, HELD) is offered


def test_the_rendezvous_wants_the_token(ground: Ground) -> None:
    address = f"127.0.0.1:{ground.rendezvous.port}"
    wrong = replace(ground.credentials, token="wrong")
    with RendezvousClient(address, wrong) as client, pytest.raises(IntakeFailed):
        client.lookup(0)
    with RendezvousClient(address, ground.credentials) as client:
        assert client.lookup(0) is None
        assert client.register(HELD) == HELD
        assert client.register(replace(HELD, epoch=1)) == HELD
        assert client.lookup(0) == HELD
