"""Handshakes under way: their bounds, and which give way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.transport.half_open import HalfOpen, network

HOSTS = st.sampled_from(
    ["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1", "2001:db8::ffff", "2001:db8:0:1::1"]
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["comes", "comes", "proves", "goes"]), HOSTS, st.booleans(),
              st.integers(0, 40)),
    max_size=80,
)  # fmt: skip
MOST, EACH = 8, 3


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


class Model:
    """The same, by looking at all: network, whether proved, and since which step."""

    def __init__(self) -> None:
        self.entries: dict[int, tuple[str, bool, int]] = {}

    def crowd(self, name: str) -> int:
        return sum(of == name for of, _, _ in self.entries.values())

    def full(self, name: str) -> bool:
        return len(self.entries) >= MOST or self.crowd(name) >= EACH

    def oldest(self, name: str) -> int | None:
        def first(wanted: Callable[[str, bool], bool]) -> int | None:
            found = [(at, n) for n, (of, known, at) in self.entries.items() if wanted(of, known)]
            return min(found)[1] if found else None

        if self.crowd(name) >= EACH:
            near = first(lambda of, known: of == name and not known)
            return first(lambda of, known: of == name) if near is None else near
        stranger = first(lambda of, known: not known)
        if stranger is not None:
            return stranger
        most = max(self.crowd(of) for of, _, _ in self.entries.values())
        if most <= self.crowd(name) + 1:
            return None
        crowded = {of for of, _, _ in self.entries.values() if self.crowd(of) == most}
        return first(lambda of, known: of in crowded)


@given(STEPS)
def test_who_gives_way(steps: list[tuple[str, str, bool, int]]) -> None:
    shaking: HalfOpen[int] = HalfOpen(MOST, EACH)
    model = Model()
    for now, (step, host, proved, which) in enumerate(steps):
        known = sorted(model.entries)
        chosen = known[which % len(known)] if known else -1
        if step == "goes":
            shaking.discard(chosen)
            model.entries.pop(chosen, None)
        elif step == "proves":
            shaking.prove(chosen)
            if chosen in model.entries and not model.entries[chosen][1]:
                model.entries[chosen] = (model.entries[chosen][0], True, now)
        else:
            name = network(host)
            assert shaking.full(host) is model.full(name)
            if model.full(name):
                oldest, expected = shaking.oldest(host), model.oldest(name)
                if expected is None or not model.entries[expected][1]:
                    assert oldest == expected
                else:  # of networks that are as crowded, either
                    assert oldest is not None
                    assert model.entries[oldest][1]
                    assert model.crowd(model.entries[oldest][0]) == model.crowd(
                        model.entries[expected][0]
                    )
                if oldest is not None:
                    shaking.discard(oldest)
                    del model.entries[oldest]
            if not model.full(name):
                shaking.add(now, host, proved)
                model.entries[now] = (name, proved, now)
        assert len(shaking) == len(model.entries) <= MOST
        assert shaking.unproved == sum(not known for _, known, _ in model.entries.values())
        assert all(item in shaking for item in model.entries)
    for item in model.entries:
        shaking.discard(item)
    assert not shaking._networks
