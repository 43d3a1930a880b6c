"""What is answered over HTTP: metrics, health, the page and its data."""

from __future__ import annotations

import html
import json
import threading
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import get_args

from aqueduct_core.flight.activity import ChannelOrder, ChannelQuery
from aqueduct_core.monitoring.access import PageAccess
from aqueduct_core.monitoring.health import ObservedIntake, reasons_against
from aqueduct_core.monitoring.http_server import HttpRequest, HttpResponse
from aqueduct_core.monitoring.metrics import exposition

FRESH_SECONDS = 1.0
"""For so long an answer stands for all who ask the same: however many look, it is made once."""

KEPT = 8
"""Answers to different questions."""

ASSETS = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "chart.js": "text/javascript; charset=utf-8",
    "text.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing but what is served here runs or is shown, and nobody puts it into a frame."""

_PAGE_HEADERS = (("Content-Security-Policy", POLICY), ("Cache-Control", "no-store"))
_SEE_OTHER = 303


Observe = Callable[[ChannelQuery], Sequence[ObservedIntake]]


class Site:
    """Answers requests about one or several intakes. Thread-safe.

    Args:
        observe: what is seen of the intakes now; called once a second at most for each question.
        alone: there is one intake, of this process: it has metrics and health.
    """

    def __init__(
        self,
        observe: Observe,
        access: PageAccess,
        *,
        alone: bool,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._observe = observe
        self._access = access
        self._clock = clock
        self._wall = wall
        self._lock = threading.Lock()
        self._answers: dict[ChannelQuery, tuple[float, Sequence[ObservedIntake]]] = {}
        self._open: dict[str, Callable[[HttpRequest], HttpResponse]] = {"/login": self._login}
        self._closed: dict[str, Callable[[HttpRequest], HttpResponse]] = {
            "/": self._page,
            "/status.json": self._status,
        }
        if alone:
            self._open |= {"/healthz": self._health, "/readyz": self._readiness}
            self._closed["/metrics"] = self._metrics

    def respond(self, request: HttpRequest) -> HttpResponse:
        path = request.path
        if path.startswith("/assets/"):
            return _asset(path.removeprefix("/assets/"))
        if path == "/login" and request.method == "POST":
            return self._begin(request)
        if path == "/logout" and request.method == "POST":
            gone = ("Set-Cookie", self._access.end(request))
            return HttpResponse(_SEE_OTHER, headers=(("Location", "/login"), gone))
        if request.method not in ("GET", "HEAD"):
            return HttpResponse(405, b"only GET\n", headers=(("Allow", "GET, HEAD"),))
        if path in self._open:
            return self._open[path](request)
        if path not in self._closed:
            return HttpResponse(404, b"there is nothing here\n")
        if self._access.admits(request):
            return self._closed[path](request)
        if not self._access.asks:
            return HttpResponse(
                403, b"without a token this is answered only as localhost: set http.tokenFile\n"
            )
        if path == "/":
            return HttpResponse(_SEE_OTHER, headers=(("Location", "/login"),))
        return HttpResponse(
            401, b"a bearer token is required\n", headers=(("WWW-Authenticate", "Bearer"),)
        )

    def _seen(self, query: ChannelQuery) -> Sequence[ObservedIntake]:
        with self._lock:
            at, found = self._answers.get(query, (float("-inf"), ()))
            if self._clock() - at < FRESH_SECONDS:
                return found
            found = self._observe(query)
            while len(self._answers) >= KEPT:
                del self._answers[next(iter(self._answers))]
            self._answers[query] = self._clock(), found
            return found

    def _own(self) -> ObservedIntake:
        [own] = self._seen(ChannelQuery(most=0, peers=0))
        return own

    def _metrics(self, request: HttpRequest) -> HttpResponse:
        own = self._own()
        if own.status is None:
            return HttpResponse(503, f"{own.error}\n".encode())
        return HttpResponse(200, *exposition(own.status, request.headers.get("accept", "")))

    def _health(self, request: HttpRequest) -> HttpResponse:
        """Whether it answers at all."""
        if self._own().error:
            return HttpResponse(503, b"it does not answer\n")
        return HttpResponse(200, b"ok\n")

    def _readiness(self, request: HttpRequest) -> HttpResponse:
        own = self._own()
        why = ["it does not answer"] if own.status is None else reasons_against(own.status)
        if why:
            return HttpResponse(503, ("not ready: " + "; ".join(why) + "\n").encode())
        return HttpResponse(200, b"ready\n")

    def _status(self, request: HttpRequest) -> HttpResponse:
        asked = request.query
        order = asked.get("order", "rate")
        try:
            query = ChannelQuery(
                asked.get("search", ""),
                order if order in get_args(ChannelOrder) else "rate",  # type: ignore[arg-type]
                int(asked.get("most", "50")),
                int(asked.get("peers", "20")),
            ).bounded()
        except ValueError:
            return HttpResponse(400, b"most and peers are numbers\n")
        seen = {
            "at": self._wall(),
            "closes": self._access.asks,
            "intakes": [each.to_json() for each in self._seen(query)],
        }
        body = json.dumps(seen, allow_nan=False).encode()
        return HttpResponse(200, body, "application/json", (("Cache-Control", "no-store"),))

    def _page(self, request: HttpRequest) -> HttpResponse:
        return _html(200, _text("index.html"))

    def _login(self, request: HttpRequest) -> HttpResponse:
        return _login_page(200, "")

    def _begin(self, request: HttpRequest) -> HttpResponse:
        cookie = self._access.begin(request.form.get("token", ""), request.secure)
        if cookie is None:
            return _login_page(403, "This is not a token that may look. Try again.")
        return HttpResponse(_SEE_OTHER, headers=(("Location", "/"), ("Set-Cookie", cookie)))


def _asset(name: str) -> HttpResponse:
    if name not in ASSETS:
        return HttpResponse(404, b"there is nothing here\n")
    cached = ("Cache-Control", "no-cache")
    return HttpResponse(200, _text(name).encode(), ASSETS[name], (cached,))


def _login_page(status: int, error: str) -> HttpResponse:
    return _html(status, _text("login.html").replace("<!--error-->", html.escape(error)))


def _html(status: int, text: str) -> HttpResponse:
    return HttpResponse(status, text.encode(), "text/html; charset=utf-8", _PAGE_HEADERS)


def _text(name: str) -> str:
    return files("aqueduct_core.monitoring").joinpath("assets", name).read_text("utf-8")
