"""The end of a connection in words."""

from __future__ import annotations

import pytest
from aioquic.quic.packet import QuicErrorCode
from aioquic.tls import AlertDescription

from aqueduct_core.engine.close_codes import (
    CRYPTO_ERROR,
    CloseOrigin,
    how_lost,
    transport_error,
)
from aqueduct_core.engine.inputs import LinkLost

QUIC = CloseOrigin.TRANSPORT


def test_codes_have_the_names_of_their_registries() -> None:
    for code in QuicErrorCode:
        assert transport_error(code).startswith(f"{code.name} (0x{code:x}")
    for alert in AlertDescription:
        text = f"(0x{CRYPTO_ERROR + alert:x}, TLS alert {alert:d} {alert.name})"
        assert transport_error(CRYPTO_ERROR + alert) == f"CRYPTO_ERROR {text}"
    assert transport_error(0x1FF) == "CRYPTO_ERROR (0x1ff, TLS alert 255)"
    assert transport_error(1 << 40) == "error (0x10000000000)"


@pytest.mark.parametrize(
    ("lost", "text"),
    [
        (LinkLost(9, "", True, QUIC), "QUIC's CONNECTION_ID_LIMIT_ERROR (0x9) from the peer"),
        (LinkLost(3, "x", False, QUIC), "QUIC's FLOW_CONTROL_ERROR (0x3) from this side: x"),
        (LinkLost(0, "", False, CloseOrigin.IDLE_TIMEOUT), "idle timeout"),
        (LinkLost(0, "unreachable: port 1", False, CloseOrigin.ABANDONED), "unreachable: port 1"),
        (LinkLost(0, "stateless reset", True, CloseOrigin.STATELESS_RESET), "stateless reset"),
    ],
)  # fmt: skip
def test_how_a_connection_was_lost(lost: LinkLost, text: str) -> None:
    assert how_lost(lost) == text
