"""Who may see what goes on: whoever has a token, or on a loopback address everybody who came there
on purpose.

A program sends the token with each request, as ``Authorization: Bearer``. A browser sends it once
in a form, and has a cookie from then on, which is no token and cannot be read by scripts. A token
is in no URL.
"""

from __future__ import annotations

import ipaddress
import secrets
import threading
import time
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie

from aqueduct_core.monitoring.http_server import HttpRequest

COOKIE = "aqueduct-page"
SESSION_SECONDS = 12 * 3600.0
MAX_SESSIONS = 64
"""Browsers at once; of more the one that came first has to give its token again."""


class PageAccess:
    """
    Args:
        accepts: whether a token is one of those that may see; None: none is asked for. Then only
            requests are answered that name a loopback address as their host: a page of somebody
            else, which has its own name lead here, reads nothing.
        clock: monotonic seconds.
    """

    def __init__(
        self, accepts: Callable[[str], bool] | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._accepts = accepts
        self._clock = clock
        self._sessions: dict[str, float] = {}
        self._lock = threading.Lock()

    @property
    def asks(self) -> bool:
        """Whether a token is asked for."""
        return self._accepts is not None

    def admits(self, request: HttpRequest) -> bool:
        if self._accepts is None:
            return _names_loopback(request.headers.get("host", ""))
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._accepts(token.strip()):
            return True
        return self._known(_cookie(request))

    def begin(self, token: str, secure: bool) -> str | None:
        """The cookie of a browser that gave this token, as a header's value; None: a wrong one."""
        if self._accepts is None or not self._accepts(token.strip()):
            return None
        name = secrets.token_urlsafe(32)
        with self._lock:
            while len(self._sessions) >= MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[name] = self._clock() + SESSION_SECONDS
        return self._set(name, int(SESSION_SECONDS), secure)

    def end(self, request: HttpRequest) -> str:
        """Forget the browser; the header's value that has it forget its cookie."""
        with self._lock:
            self._sessions.pop(_cookie(request), None)
        return self._set("", 0, request.secure)

    def _known(self, name: str) -> bool:
        with self._lock:
            until = self._sessions.get(name)
            if until is not None and until <= self._clock():
                del self._sessions[name]
                until = None
        return until is not None

    def _set(self, value: str, age: int, secure: bool) -> str:
        more = "; Secure" if secure else ""
        return f"{COOKIE}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{more}"


def _cookie(request: HttpRequest) -> str:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _names_loopback(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    name = name.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
