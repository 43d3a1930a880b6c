"""Handshakes under way: their bounds, and which give way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.transport.half_open import HalfOpen, network

HOSTS = st.sampled_from(
    ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::ffff", "2001:db8:0:1::1"]
)
STEPS = st.lists(st.tuples(st.booleans(), HOSTS, st.booleans(), st.integers(0, 40)), max_size=80)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::"),
        ("2001:db8::ffff:0:0:1", "2001:db8::"),
        ("2001:db8:0:1::1", "2001:db8:0:1::"),
        ("fe80::1%eth0", "fe80::"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
    ],
)
def test_an_ipv6_network_is_one_client(host: str, expected: str) -> None:
    assert network(host) == expected


@given(STEPS)
def test_the_oldest_without_proof_gives_way(steps: list[tuple[bool, str, bool, int]]) -> None:
    """Against a plain list, in the order in which they began."""
    most, each = 8, 3
    shaking: HalfOpen[int] = HalfOpen(most, each)
    model: list[tuple[int, str, bool]] = []
    for number, (comes, host, proved, which) in enumerate(steps):
        if not comes:
            gone = model.pop(which % len(model))[0] if model else -1
            shaking.discard(gone)
        else:
            strangers = [item for item, _, known in model if not known]
            near = [n for n, of, known in model if not known and network(of) == network(host)]
            crowded = not proved and len(near) >= each
            full = crowded or len(model) >= most
            expected = (near if crowded else strangers)[:1]
            assert shaking.full(host, proved) is full
            if full:
                assert [n for n in [shaking.oldest(host, proved)] if n is not None] == expected
                for gone in expected:
                    shaking.discard(gone)
                    model = [entry for entry in model if entry[0] != gone]
            if not shaking.full(host, proved):
                shaking.add(number, host, proved)
                model.append((number, host, proved))
        assert len(shaking) == len(model) <= most
        assert shaking.unproved == sum(not known for _, _, known in model)
        assert all(item in shaking for item, _, _ in model)
    for item, _, _ in model:
        shaking.discard(item)
    assert not shaking._networks
