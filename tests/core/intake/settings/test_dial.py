from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.settings.dial import ConnectSettings
from aqueduct_core.primitives.settings import from_mapping

ENDPOINTS = ("[::1]:4433", "server.example:1")


def back(settings: ConnectSettings) -> ConnectSettings:
    return from_mapping(msgspec.to_builtins(settings), ConnectSettings)


def test_settings_come_back_from_their_json() -> None:
    settings = ConnectSettings(
        ENDPOINTS,
        server_name="server",
        insecure=True,
        token="hush",
        first_wait=1.0,
        longest_wait=2.0,
        idle_timeout=3.0,
        bounded=True,
    )
    assert back(settings) == settings
    plain = ConnectSettings(ENDPOINTS, ca_file="/ca", token_file="/token")
    assert back(plain) == plain
    assert "hush" not in repr(settings)


@pytest.mark.parametrize(
    "given",
    [
        {"endpoints": ()},
        {"endpoints": ("a",)},
        {"endpoints": ("a:0",)},
        {"endpoints": ("a:1", "a:1")},
        {"endpoints": ("a:1", "A.:1")},
        {"insecure": True, "ca_file": "/ca"},
        {"token": "t", "token_file": "/t"},
        {"first_wait": 0.0},
        {"first_wait": 3.0, "longest_wait": 2.0},
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        ConnectSettings(**{"endpoints": ("a:1",), **given})
