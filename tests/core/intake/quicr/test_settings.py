"""Settings of an intake of QUICR: as JSON, as they are refused, and as they are compared."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.adapter import settings_from
from aqueduct_core.intake.quicr.media import MAX_URLS, MediaIntake
from aqueduct_core.intake.quicr.settings import QuicrConnect, QuicrIntake
from aqueduct_core.intake.settings.in_force import differing, in_force
from aqueduct_core.intake.settings.intake import AuthSettings


def intake(**given: Any) -> QuicrIntake:
    base = {"spool": "/s", "credentials": Credentials("t", b"c"), "protocol": "quicr"}
    return QuicrIntake(**{**base, **({} if "connect" in given else {"listen": "[::1]:0"}), **given})


def test_they_come_back_from_json() -> None:
    connect = QuicrConnect(("quicr://o:1",), urls=("a", "b\\xff"))
    media = MediaIntake(delivery="datagram", order="arrival", hole_timeout=0.5, start_group=3)
    given = intake(connect=connect, media=media)
    assert settings_from(given.to_json()) == given
    assert connect.endpoints == ("o:1",)
    assert media.start == (3, 0)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "MISSING.*by their URLs or by a prefix.*url, or subscribePrefix"),
        ({"urls": ("a",), "subscribe_prefix": ""}, "CONFLICT.*both are set"),
        ({"urls": ("a", "a")}, "url names 'a' twice"),
        ({"urls": ("a\\b",)}, r"url is 'a\\\\b'. Give a URL in which a backslash is written twice"),
        ({"subscribe_prefix": "\x07"}, "subscribePrefix is .*control characters"),
        ({"urls": tuple(map(str, range(MAX_URLS + 1)))}, "10001 media"),
        ({"urls": ("a",), "token": "secret"}, "no place for a token"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidOption, match=text) as refused:
        QuicrConnect(("o:1",), **given)
    assert "secret" not in str(refused.value)


def test_a_token_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"auth\.tokenFile is set.*no place for a token"):
        intake(auth=AuthSettings(token_file="/t"))
    with pytest.raises(InvalidOption, match=r"auth\.tokenEnv") as refused:
        intake(auth=AuthSettings(token="secret", token_env="T"))
    assert "secret" not in str(refused.value)


def test_a_query_finds_that_an_intake_runs_with_others() -> None:
    one = in_force(intake(connect=QuicrConnect(("o:1",), urls=("b", "a"))))
    same = in_force(intake(connect=QuicrConnect(("o:1",), urls=("a", "b"))))
    other = in_force(
        intake(
            connect=QuicrConnect(("o:1",), subscribe_prefix="c"), media=MediaIntake(order="arrival")
        )
    )
    assert one == same
    assert differing(one, other) == ["order", "subscribePrefix", "url"]
