from __future__ import annotations

import json

import pytest

from aqueduct_core.errors import DataLoss
from aqueduct_core.flight.tickets import Commit, IntakeStatus, Ticket, require_spool
from tests.core.flight.hosted import MemoryHost


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
    for commit in (Commit("query", (1, 2), "spool", 4), Commit("query", ())):
        assert Commit.from_json(json.loads(json.dumps(commit.to_json()))) == commit


def test_a_status_comes_back_from_its_json_and_unknown_keys_do_not_matter() -> None:
    status = MemoryHost().status()
    data = json.loads(json.dumps(status.to_json() | {"invented": "later"}))
    assert IntakeStatus.from_json(data) == status


def test_another_spool_is_data_loss() -> None:
    require_spool("a", "a")
    require_spool("a", None)
    with pytest.raises(DataLoss, match=r"SPOOL_REPLACED.*spool b.*spool a"):
        require_spool("a", "b")
