"""When clients are asked to prove their address."""

from __future__ import annotations

from aqueduct_core.transport.address_validation import BURST, CALM, RATE, AddressValidation


def test_a_burst_and_a_steady_stream_of_clients_are_not_asked() -> None:
    validation = AddressValidation("auto", unproved=50)
    now = 10.0
    for _ in range(int(BURST) - 1):
        validation.came(now)
        assert not validation.wanted(0, now)
    for _ in range(10_000):
        now += 1 / RATE
        validation.came(now)
        assert not validation.wanted(49, now)


def test_more_than_that_is_asked_until_it_is_calm_again() -> None:
    validation = AddressValidation("auto", unproved=50)
    now = 10.0
    for _ in range(int(BURST) + 10):
        validation.came(now)
    assert validation.wanted(0, now)
    assert validation.wanted(0, now + CALM - 0.1)
    assert not validation.wanted(0, now + CALM)
    assert validation.wanted(50, now + CALM)
    assert validation.wanted(0, now + 2 * CALM - 0.1)
    assert not validation.wanted(49, now + 2 * CALM)


def test_always_and_never() -> None:
    for mode, wanted in (("always", True), ("never", False)):
        validation = AddressValidation(mode, unproved=1)  # type: ignore[arg-type]
        for _ in range(1_000):
            validation.came(1.0)
        assert validation.wanted(1_000, 1.0) is wanted
        assert validation.wanted(0, 100.0) is wanted
