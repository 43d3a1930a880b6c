"""Plain UDP is for this machine, unless somebody says that a network is trusted."""

from __future__ import annotations

import logging

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.transport.link import Address
from aqueduct_core.transport.plain_udp.endpoints import dial, listen
from aqueduct_core.transport.plain_udp.link import PlainSettings
from aqueduct_core.transport.plain_udp.reach import check_reach, reach_warning
from tests.core.transport.plain_udp.test_endpoints import nobody
from tests.core.transport.probe import Probe
from tests.support.event_loop import in_loop
from tests.support.rules import rule

HERE: list[Address] = [("127.0.0.1", 1), ("127.9.9.9", 1), ("::1", 1, 0, 0)]
AWAY: list[Address] = [("0.0.0.0", 1), ("192.0.2.1", 1), ("::", 1, 0, 0), ("fe80::1", 1, 0, 2)]


@pytest.mark.parametrize("address", HERE)
def test_loopback_is_for_everybody(address: Address) -> None:
    check_reach(address, trusted=False)
    assert reach_warning(address) is None


@pytest.mark.parametrize("address", AWAY)
@rule("P-2")
def test_other_addresses_are_for_trusted_networks(address: Address) -> None:
    with pytest.raises(
        InvalidOption, match=r"not a loopback address.*udp\.trusted=true"
    ) as refused:
        check_reach(address, trusted=False)
    assert refused.value.name == "AQUEDUCT_INVALID_OPTION.BAD_VALUE"
    check_reach(address, trusted=True)
    warning = reach_warning(address)
    assert warning is not None
    assert "neither encrypted nor authenticated" in warning


@in_loop
async def test_a_listener_says_what_everybody_should_know(caplog: pytest.LogCaptureFixture) -> None:
    def refused(peer: Address, now: float) -> tuple[Probe, object]:
        raise AssertionError

    with pytest.raises(InvalidOption, match="plain UDP"):
        await listen("0.0.0.0", 0, make_engine=refused)  # type: ignore[arg-type]
    assert caplog.records == []
    listener = await listen(
        "0.0.0.0",
        0,
        make_engine=refused,  # type: ignore[arg-type]
        settings=PlainSettings(trusted=True),
    )
    [told] = caplog.records
    assert (told.levelno, told.getMessage()) == (logging.WARNING, listener.warning)
    await listener.close()


@in_loop
async def test_who_dials_is_asked_the_same() -> None:
    with pytest.raises(InvalidOption, match="plain UDP"):
        await dial("192.0.2.1", 7, make_engine=lambda now: Probe(client=True), on_events=nobody)
