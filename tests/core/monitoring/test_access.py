"""Who may see: tokens, the cookie of a browser, and who came to a loopback address on purpose."""

from __future__ import annotations

import pytest

from aqueduct_core.monitoring.access import COOKIE, MAX_SESSIONS, SESSION_SECONDS, PageAccess
from aqueduct_core.monitoring.http_server import HttpRequest


def request(**headers: str) -> HttpRequest:
    return HttpRequest("GET", "/", headers=headers)


def asking(clock: list[float] | None = None) -> PageAccess:
    return PageAccess(lambda token: token == "right", lambda: clock[0] if clock else 0.0)


def cookie_of(header: str) -> str:
    return header.split(";")[0]


@pytest.mark.parametrize(
    ("host", "admitted"),
    [
        ("localhost:9464", True),
        ("LOCALHOST", True),
        ("127.0.0.1:9464", True),
        ("127.8.8.8", True),
        ("[::1]:9464", True),
        ("evil.example:9464", False),
        ("localhost.evil.example", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_without_tokens_only_a_loopback_name_is_answered(host: str, admitted: bool) -> None:
    access = PageAccess(None)
    assert not access.asks
    assert access.admits(request(host=host)) is admitted


@pytest.mark.parametrize(
    ("given", "admitted"),
    [
        ("Bearer right", True),
        ("bearer  right ", True),
        ("Bearer wrong", False),
        ("Basic right", False),
        ("right", False),
        ("", False),
    ],
)
def test_a_program_sends_the_token_as_bearer(given: str, admitted: bool) -> None:
    assert asking().admits(request(authorization=given, host="localhost")) is admitted


def test_a_browser_has_a_cookie_that_is_no_token_and_ends() -> None:
    clock = [0.0]
    access = asking(clock)
    assert access.begin("wrong", secure=False) is None
    header = access.begin(" right ", secure=True)
    assert header is not None
    assert "right" not in header
    assert {"HttpOnly", "SameSite=Strict", "Secure", "Path=/"} <= set(header.split("; "))
    assert "Secure" not in str(access.begin("right", secure=False))
    mine = request(cookie=f"other=1; {cookie_of(header)}")
    assert access.admits(mine)
    assert not access.admits(request(cookie=f"{COOKIE}=invented"))
    assert not access.admits(request(cookie=f"{COOKIE}="))
    assert not access.admits(request(cookie='a="'))
    assert f"{COOKIE}=;" in access.end(mine)
    assert not access.admits(mine)


def test_sessions_are_bounded_in_time_and_number() -> None:
    clock = [0.0]
    access = asking(clock)
    headers = [access.begin("right", secure=False) for _ in range(MAX_SESSIONS + 1)]
    cookies = [cookie_of(str(each)) for each in headers]
    assert not access.admits(request(cookie=cookies[0]))
    assert access.admits(request(cookie=cookies[1]))
    clock[0] = SESSION_SECONDS
    assert not access.admits(request(cookie=cookies[1]))
