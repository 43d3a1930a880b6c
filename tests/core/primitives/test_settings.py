"""A section of settings: legal when it exists, read from options, JSON and TOML in one way."""

from __future__ import annotations

import pickle
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives.settings import (
    Section,
    duration,
    from_mapping,
    number,
    plain,
    settings_of,
    size,
    without_units,
)


class Inner(Section, frozen=True):
    prefix: ClassVar[str] = "inner."

    most_bytes: Annotated[int, size("1k", "1m", "Of one.")] = 64 << 10
    longest_wait: Annotated[float, duration("10ms", "1m", "For it.")] = msgspec.field(
        name="waitSeconds", default=0.5
    )


class Outer(Section, frozen=True):
    channels: Annotated[int, number(1, 9, "At once.")] = 3
    retry: Annotated[Literal["auto", "never"], plain("Whether.")] = "auto"
    lease: Annotated[float, duration("1s", "1d", "Until the end.")] | None = None
    inner: Inner = Inner()


def test_a_definition_says_all_there_is_to_say() -> None:
    most, wait = settings_of(Inner)
    assert (most.name, most.key, most.field) == ("inner.mostBytes", "mostBytes", "most_bytes")
    assert (most.unit, most.low, most.high, most.written) == ("size", "1k", "1m", "64k")
    assert (wait.name, wait.key, wait.written) == ("inner.longestWait", "waitSeconds", "500ms")
    assert [each.name for each in settings_of(Outer)] == ["channels", "retry", "lease"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"channels": 0}, "option channels is 0.*allowed are 1 to 9"),
        ({"channels": True}, "option channels is True"),
        ({"channels": "3"}, "option channels is '3'"),
        ({"retry": "often"}, "option retry is 'often'"),
        ({"lease": 0.5}, "option lease is 0.5.*allowed are 1s to 1d"),
    ],
)
def test_what_is_outside_its_bounds_does_not_exist(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidOption, match=words) as refused:
        Outer(**given)
    assert refused.value.subclass == "BAD_VALUE"


def test_an_option_that_is_missing_has_its_default() -> None:
    assert Outer.of_options({"channels": 5, "retry": None, "other": 1}) == Outer(channels=5)
    assert Inner.of_options({"inner.mostBytes": 2048}) == Inner(most_bytes=2048)


def test_sections_come_back_from_what_they_were_written_as() -> None:
    settings = Outer(9, "never", 2.0, Inner(2048, 1.5))
    assert from_mapping(msgspec.to_builtins(settings), Outer) == settings
    assert pickle.loads(pickle.dumps(settings)) == settings


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"chanels": 1}, r"UNKNOWN.*unknown key chanels.*The nearest one is channels"),
        ({"inner": {"wait": 1}}, r"UNKNOWN.*inner\.wait\b.*nearest one is inner\.waitSeconds"),
        (
            {"inner": {"mostBytes": "x"}},
            r'key inner\.mostBytes is "x"; it must be a size from \w+ to',
        ),
        ({"inner": 1}, r"BAD_VALUE.*key inner is 1; it must be a table, written \[inner\]"),
        ({"channels": 10}, r"BAD_VALUE.*key channels is 10; it must be a whole number from 1 to 9"),
    ],
)
def test_a_mistake_is_told_with_its_key(data: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        from_mapping(data, Outer)


def test_people_write_units() -> None:
    plain_form = without_units(
        {"channels": 2, "lease": "1m", "inner": {"mostBytes": "1m", "waitSeconds": "20ms"}}, Outer
    )
    assert from_mapping(plain_form, Outer) == Outer(2, "auto", 60.0, Inner(1 << 20, 0.02))
    for wrong, words in (
        ({"lease": 20}, r'lease is 20, without a unit.*"10s"'),
        ({"inner": {"mostBytes": "5x"}}, r"inner\.mostBytes: '5x' is no size"),
    ):
        with pytest.raises(InvalidOption, match=words):
            without_units(wrong, Outer)
