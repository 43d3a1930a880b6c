from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.aqueduct.settings import AqueductConnect, Subscription, in_full
from aqueduct_core.primitives.settings import from_mapping

ENDPOINTS = ("[::1]:4433", "server.example:1")


def back(settings: AqueductConnect) -> AqueductConnect:
    return from_mapping(msgspec.to_builtins(settings), AqueductConnect)


def test_settings_come_back_from_their_json() -> None:
    settings = AqueductConnect(
        ENDPOINTS,
        subscriptions=(
            Subscription("a", (("k", "v"), ("k", "w")), "{name}"),
            Subscription("größe"),
        ),
        server_name="server",
        insecure=True,
        token="hush",
        first_wait=1.0,
        longest_wait=2.0,
        idle_timeout=3.0,
        bounded=True,
    )
    assert back(settings) == settings
    plain = AqueductConnect(ENDPOINTS, ca_file="/ca", token_file="/token")
    assert back(plain) == plain
    assert "hush" not in repr(settings)


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


@pytest.mark.parametrize(
    "given",
    [
        {"endpoints": ()},
        {"endpoints": ("a",)},
        {"endpoints": ("a:0",)},
        {"endpoints": ("a:1", "a:1")},
        {"endpoints": ("a:1", "A.:1")},
        {"subscriptions": ()},
        {"subscriptions": (Subscription("x"), Subscription("x"))},
        {"insecure": True, "ca_file": "/ca"},
        {"token": "t", "token_file": "/t"},
        {"first_wait": 0.0},
        {"first_wait": 3.0, "longest_wait": 2.0},
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        AqueductConnect(**{"endpoints": ("a:1",), **given})


@pytest.mark.parametrize("given", [{"name": "x" * 257}, {"headers": (("", "v"),)}])
def test_a_subscription_that_no_request_can_carry_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="BAD_VALUE"):
        Subscription(**given)
