"""What an intake that dials makes of the end of a connection."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.conventions.headers import CODE_REJECTED
from aqueduct_core.aqueduct.conventions.refusals import refusal
from aqueduct_core.aqueduct.events import Closed
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.errors import ConnectFailed, ProtocolViolation
from aqueduct_core.intake.aqueduct.remote import _lost
from aqueduct_core.intake.sessions.endpoint_connection import REFUSALS

WHERE = "host:4433"


@pytest.mark.parametrize("code", [Code.VERSION, CODE_REJECTED])
def test_after_an_error_of_quic_it_dials_again_as_after_any_loss(code: int) -> None:
    """And does not wait as long as after a refusal."""
    assert isinstance(refusal(WHERE, Closed(code, "", True)), REFUSALS)
    error = refusal(WHERE, Closed(code, "", True, CloseOrigin.TRANSPORT))
    assert isinstance(error, ConnectFailed)
    assert not isinstance(error, REFUSALS)


def test_who_breaks_quic_has_not_broken_our_protocol() -> None:
    assert isinstance(_lost(WHERE, Closed(Code.STATE, "x", False)), ProtocolViolation)
    error = _lost(WHERE, Closed(Code.STATE, "x", False, CloseOrigin.TRANSPORT))
    assert isinstance(error, ConnectFailed)
    assert "QUIC's FINAL_SIZE_ERROR (0x6) from this side: x" in error.what
