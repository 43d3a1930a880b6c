"""Which channels are named, in which order, and that their number is bounded."""

from __future__ import annotations

import pytest

from aqueduct_core.flight.activity import ChannelQuery
from aqueduct_core.intake.observing import traffic_table
from aqueduct_core.intake.observing.traffic_table import ENDED_KEPT, ConnectionState, TrafficTable


def names(table: TrafficTable, now: float = 0.0, **asked: object) -> list[str]:
    query = ChannelQuery(**asked)  # type: ignore[arg-type]
    return [each.name for each in table.channels(query, CONNECTIONS, now)[0]]


CONNECTIONS = [
    ConnectionState("s-1", "10.0.0.1:5000", 2, 100, 7),
    ConnectionState("s-2", "10.0.0.2:5000", 1, 50, 0),
]


@pytest.fixture
def table() -> TrafficTable:
    table = TrafficTable()
    table.connected("s-1", "alpha", 0.0)
    table.connected("s-2", "beta", 0.0)
    table.opened(("s-1", 0), "0", "alpha", None, 0.0)
    table.opened(("s-1", 8), "orders", "alpha", 0, 1.0)
    table.opened(("s-1", 16), "lines", "alpha", 8, 2.0)
    table.opened(("s-2", 8), "Prices", "beta", 0, 3.0)
    table.brought(("s-1", 8), 100, 10_000, 0, 4.0)
    table.brought(("s-1", 16), 10, 90_000, 5, 5.0)
    table.brought(("s-2", 8), 1, 1, 0, 6.0)
    table.nacked(("s-2", 8), 3)
    return table


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("messages", ["orders", "lines", "Prices", "0"]),
        ("bytes", ["lines", "orders", "Prices", "0"]),
        ("rate", ["orders", "lines", "Prices", "0"]),
        ("quiet", ["0", "orders", "lines", "Prices"]),
        ("repeated", ["lines", "0", "Prices", "orders"]),
        ("nacked", ["Prices", "0", "lines", "orders"]),
        ("name", ["0", "Prices", "lines", "orders"]),
        ("tree", ["0", "orders", "lines", "Prices"]),
    ],
)
def test_channels_have_the_order_that_is_asked_for(
    table: TrafficTable, order: str, expected: list[str]
) -> None:
    assert names(table, 10.0, order=order) == expected
    assert names(table, 10.0, order=order, most=2) == expected[:2]


def test_a_tree_says_how_deep_each_channel_is_below_those_that_are_named(
    table: TrafficTable,
) -> None:
    shown, _ = table.channels(ChannelQuery(order="tree"), (), 0.0)
    depths = {each.name: each.depth for each in shown}
    assert depths == {"0": 0, "orders": 1, "lines": 2, "Prices": 0}
    found, count = table.channels(ChannelQuery(search="lines", order="tree"), (), 0.0)
    assert [(each.name, each.depth) for each in found] == [("lines", 0)]
    assert count == 1


def test_circles_that_a_peer_declares_are_no_endless_tree() -> None:
    table = TrafficTable()
    table.opened(("s", 1), "a", "p", 2, 0.0)
    table.opened(("s", 2), "b", "p", 1, 0.0)
    table.opened(("s", 3), "c", "p", 3, 0.0)
    assert sorted(names(table, order="tree")) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("PRICES", ["Prices"]),
        ("alpha", ["orders", "lines", "0"]),
        ("10.0.0.2", ["Prices"]),
        ("s-1", ["orders", "lines", "0"]),
        ("nobody", []),
    ],
)
def test_a_search_finds_names_producers_and_addresses(
    table: TrafficTable, search: str, expected: list[str]
) -> None:
    assert names(table, 7.0, search=search, order="messages") == expected


def test_what_ended_is_still_named_and_bounded(table: TrafficTable) -> None:
    table.ended(("s-1", 8), "finished", "")
    [orders] = table.channels(ChannelQuery(search="orders"), (), 9.0)[0]
    assert (orders.state, orders.messages) == ("finished", 100)
    assert table.disconnected("s-1", "gone") == 2
    assert table.open_channels == 1
    states = {each.name: each.state for each in table.channels(ChannelQuery(), (), 9.0)[0]}
    assert states == {"0": "disconnected", "lines": "disconnected", "orders": "finished",
                      "Prices": "open"}  # fmt: skip
    for number in range(2 * ENDED_KEPT):
        table.opened(("s-2", 100 + number), "x", "beta", None, 9.0)
        table.ended(("s-2", 100 + number), "closed", "")
    assert table.channels(ChannelQuery(search="x"), (), 9.0)[1] == ENDED_KEPT
    assert table.disconnected("s-2", "gone") == 1  # the others have left nothing behind


def test_more_channels_than_there_is_room_for_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic_table, "MAX_CHANNELS", 3)
    table = TrafficTable()
    for number in range(5):
        table.opened(("s", number), f"c{number}", "p", None, 0.0)
        table.brought(("s", number), 1, 1, 0, 0.0)
    assert table.open_channels == 3
    assert table.unfollowed == 2
    table.ended(("s", 4), "closed", "")
    table.ended(("s", 0), "closed", "")
    table.opened(("s", 9), "c9", "p", None, 0.0)
    assert "c9" in names(table)


def test_peers_have_what_all_their_channels_brought(table: TrafficTable) -> None:
    found, count = table.peers(ChannelQuery(), CONNECTIONS, 8.0)
    assert count == 2
    assert [(each.producer, each.messages, each.repeated, each.waiting) for each in found] == [
        ("alpha", 110, 5, 7),
        ("beta", 1, 0, 0),
    ]
    assert found[0].address == "10.0.0.1:5000"
    [beta], _ = table.peers(ChannelQuery(search="BETA", peers=5), CONNECTIONS, 8.0)
    assert beta.connection == "s-2"
    assert table.peers(ChannelQuery(peers=0), CONNECTIONS, 8.0) == ((), 2)


def test_what_has_ended_brings_nothing_and_stands_behind_what_is_open(table: TrafficTable) -> None:
    table.ended(("s-1", 8), "finished", "")
    assert names(table, 6.0, order="rate") == ["lines", "Prices", "0", "orders"]
    [orders] = table.channels(ChannelQuery(search="orders"), (), 6.0)[0]
    assert (orders.rate, orders.byte_rate, orders.messages) == (0.0, 0.0, 100)
    table.disconnected("s-1", "gone")
    assert names(table, 6.0, order="tree") == ["Prices", "0", "orders", "lines"]


def test_trees_of_connections_stand_in_the_order_in_which_they_were_opened() -> None:
    table = TrafficTable()
    for number in (2, 10, 9):
        table.opened((f"s-{number}", 0), f"of {number}", "p", None, 0.0)
    assert names(table, order="tree") == ["of 2", "of 10", "of 9"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("messages", ["alpha", "beta"]),
        ("bytes", ["alpha", "beta"]),
        ("repeated", ["alpha", "beta"]),
        ("rate", ["alpha", "beta"]),
        ("quiet", ["beta", "alpha"]),
        ("name", ["alpha", "beta"]),
    ],
)
def test_peers_have_the_order_that_is_asked_for(
    table: TrafficTable, order: str, expected: list[str]
) -> None:
    table.brought(("s-1", 8), 1, 1, 0, 7.0)
    query = ChannelQuery(order=order)  # type: ignore[arg-type]
    assert [each.producer for each in table.peers(query, CONNECTIONS, 8.0)[0]] == expected
