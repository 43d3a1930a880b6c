from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.aqueduct.settings import AqueductConnect, Subscription, in_full
from aqueduct_core.primitives.settings import from_mapping


def test_subscriptions_come_back_from_their_json() -> None:
    settings = AqueductConnect(
        ("[::1]:4433",),
        subscriptions=(
            Subscription("a", (("k", "v"), ("k", "w")), "{name}"),
            Subscription("größe"),
        ),
    )
    assert from_mapping(msgspec.to_builtins(settings), AqueductConnect) == settings


def test_a_file_may_say_little() -> None:
    data = {
        "endpoints": ["aqueduct://a:1"],
        "subscriptions": ["x", {"name": "y", "headers": {"k": "v"}}],
    }
    assert from_mapping(in_full(data), AqueductConnect) == AqueductConnect(
        ("a:1",), subscriptions=(Subscription("x"), Subscription("y", (("k", "v"),)))
    )
    least = from_mapping({"endpoints": ["a:1"]}, AqueductConnect)
    assert least.subscriptions == (Subscription(),)


def test_a_request_holds_the_name_and_nothing_else_is_replaced() -> None:
    asked = Subscription("größe", (("from", "ü {name}"),), '{"get": "{name}", "n": {"0": "{}"}}')
    assert asked.request_payload == '{"get": "größe", "n": {"0": "{}"}}'.encode()
    assert asked.request_headers == ((b"from", "ü größe".encode()),)


@pytest.mark.parametrize("given", [(), (Subscription("x"), Subscription("x"))])
def test_there_is_a_subscription_and_none_comes_twice(given: Any) -> None:
    with pytest.raises(InvalidOption, match="BAD_VALUE"):
        AqueductConnect(("a:1",), subscriptions=given)


@pytest.mark.parametrize("given", [{"name": "x" * 257}, {"headers": (("", "v"),)}])
def test_a_subscription_that_no_request_can_carry_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="BAD_VALUE"):
        Subscription(**given)
