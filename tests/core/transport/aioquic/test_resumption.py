"""Sessions of aioquic as bytes and back."""

from __future__ import annotations

from aqueduct_core.transport.aioquic.resumption import read, written
from tests.core.transport.early import early_terms, session_of


def test_a_session_survives_being_written_and_garbage_is_none() -> None:
    session = session_of(early_terms())
    ticket = read(session.state, early=True)
    assert ticket is not None
    assert written(ticket) == session.state
    assert ticket.max_early_data_size is not None
    resuming = read(session.state, early=False)
    assert resuming is not None
    assert resuming.max_early_data_size is None
    for garbage in (b"", b"{}", b"[]", session.state[:-9], b'{"age_add":"x"}'):
        assert read(garbage, early=True) is None
