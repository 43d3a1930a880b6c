from __future__ import annotations

import json

import pytest

from aqueduct_core.errors import DataLoss
from aqueduct_core.flight.tickets import Commit, Hold, Ticket, require_spool, view_of


def test_a_ticket_comes_back_from_its_bytes() -> None:
    ticket = Ticket("spool", 1, 2**40, 2**41)
    assert Ticket.from_bytes(ticket.to_bytes()) == ticket


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'["rows", "s", 0, 1]', b'["rows", "s", 0, 5, 4]', b"\xff",
             b'["rows", "s", -1, 0, 1]', b'["cows", "s", 0, 0, 1]', b'["rows", "s", null, 0, 1]',
             b'["rows", "s", 0, 0, 1e999]', b'["rows", "s", 0, "0", 1]', b'["rows", [], 0, 0, 1]',
             b"[" * 100_000]
)  # fmt: skip
def test_other_bytes_are_no_ticket(data: bytes) -> None:
    with pytest.raises(ValueError):
        Ticket.from_bytes(data)


def test_a_commit_comes_back_from_its_json() -> None:
    for commit in (
        Commit("query", (1, 2), "spool", 4),
        Commit("query", ()),
        Commit("events", (7,), owner="me", view="events", query="a1b2"),
    ):
        assert Commit.from_json(json.loads(json.dumps(commit.to_json()))) == commit


def test_a_commit_of_an_older_client_is_one_of_messages_by_nobody() -> None:
    given = {"cursor": "query", "ends": [1], "spool": None, "epoch": None}
    assert Commit.from_json(given) == Commit("query", (1,))


def test_a_hold_comes_back_from_its_json() -> None:
    for hold in (Hold("query", "me"), Hold("e", "me", 0.5, "events", "spool", "a1", "here")):
        assert Hold.from_json(json.loads(json.dumps(hold.to_json()))) == hold


@pytest.mark.parametrize(
    "given", [{"cursor": ""}, {"cursor": "c" * 257}, {"owner": ""}, {"seconds": 0},
              {"seconds": 61}, {"seconds": float("nan")}, {"view": "status"}, {"view": []}]
)  # fmt: skip
def test_a_hold_that_makes_no_sense_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Hold.from_json(Hold("c", "me").to_json() | given)


def test_a_view_has_a_name() -> None:
    assert (view_of(None), view_of("messages"), view_of("events")) == (
        "messages", "messages", "events",
    )  # fmt: skip


def test_another_spool_is_data_loss() -> None:
    require_spool("a", "a")
    require_spool("a", None)
    with pytest.raises(DataLoss, match=r"SPOOL_REPLACED.*spool b.*spool a"):
        require_spool("a", "b")
