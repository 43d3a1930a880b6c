"""How channels are taken in: which types there may be, and the bounds of the rest."""

from __future__ import annotations

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.telehash.channels import (
    LONGEST_TYPE,
    RESERVED,
    SCHEMES,
    ChannelIntake,
    check_type,
)
from tests.support.rules import rule


@pytest.mark.parametrize("text", ["_orders", "chat", "ü" * (LONGEST_TYPE // 2)])
def test_types_of_applications(text: str) -> None:
    assert check_type(text) == text


@rule("T-2")
@pytest.mark.parametrize("text", ["", "x" * (LONGEST_TYPE + 1), "a\nb", *sorted(RESERVED)])
def test_what_is_no_type_of_an_application(text: str) -> None:
    with pytest.raises(ValueError, match="type of"):
        check_type(text)


@pytest.mark.parametrize(
    "given", [{"ack_level": "sent"}, {"window": 0}, {"window": 101}, {"channel_timeout": 0.01}]
)
def test_bounds(given: dict[str, object]) -> None:
    with pytest.raises(InvalidOption, match="BAD_VALUE"):
        ChannelIntake(**given)  # type: ignore[arg-type]


def test_the_usual_carrier_comes_first() -> None:
    assert next(iter(SCHEMES.values())) == "quic"
