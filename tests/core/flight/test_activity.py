"""What goes on, as a value: its bounds, and that it travels."""

from __future__ import annotations

from math import inf

import pytest

from aqueduct_core.errors import IntakeFailed
from aqueduct_core.flight.activity import MOST_CHANNELS, ChannelQuery, Distribution
from tests.core.flight.hosted import MemoryHost, client_of, serving


def test_a_quantile_is_the_bound_that_so_many_did_not_exceed() -> None:
    found = Distribution((0.1, 1.0), (90, 9, 1), 20.0)
    assert (found.count, found.quantile(0.5), found.quantile(0.95)) == (100, 0.1, 1.0)
    assert found.quantile(1.0) == inf
    assert Distribution().quantile(0.5) is None


def test_a_query_from_outside_is_bounded() -> None:
    asked = ChannelQuery("x" * 10_000, "name", 10**9, -5).bounded()
    assert len(asked.search) == 200
    assert (asked.order, asked.most, asked.peers) == ("name", MOST_CHANNELS, 0)


def test_an_intake_is_observed_as_it_was_asked() -> None:
    host = MemoryHost()
    with serving(host) as server, client_of(server) as client:
        found = client.observe(ChannelQuery("orders", "quiet", 3))
    assert host.calls == [ChannelQuery("orders", "quiet", 3)]
    assert found.activity is not None
    assert found.activity.channels[0].name == "orders"
    assert found.lag is not None
    assert found.lag[0].records == 95


def test_an_intake_of_an_earlier_release_says_what_it_can() -> None:
    with serving(MemoryHost()) as server, client_of(server) as client:
        del server._actions["observe"]
        assert client.observe().activity is None
        assert client.observe().epoch == 3


def test_other_failures_are_told() -> None:
    with serving(MemoryHost()) as server, client_of(server) as client:
        server.shutdown()
        with pytest.raises(IntakeFailed, match="UNREACHABLE"):
            client.observe()
