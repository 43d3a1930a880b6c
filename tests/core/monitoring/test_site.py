"""What is answered to whom: pages, data, metrics and health."""

from __future__ import annotations

import json

import pytest

from aqueduct_core.errors import IntakeFailed
from aqueduct_core.flight.activity import MOST_CHANNELS, ChannelQuery
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.monitoring.access import PageAccess
from aqueduct_core.monitoring.health import observed
from aqueduct_core.monitoring.http_server import HttpRequest, HttpResponse
from aqueduct_core.monitoring.site import ASSETS, FRESH_SECONDS, Site
from tests.core.monitoring.statuses import status


class Scene:
    def __init__(self, *, token: str | None = "right", alone: bool = True) -> None:
        self.now = 0.0
        self.seen: list[ChannelQuery] = []
        self.status: IntakeStatus | None = status()
        access = PageAccess(None if token is None else lambda given: given == token)
        self.site = Site(
            self._observe, access, alone=alone, clock=lambda: self.now, wall=lambda: 5.0
        )

    def _observe(self, query: ChannelQuery) -> list[object]:
        self.seen.append(query)
        return [observed("spool/a", self._look)]

    def _look(self) -> IntakeStatus:
        if self.status is None:
            raise IntakeFailed("UNREACHABLE", "it does not answer", "Look")
        return self.status

    def get(self, path: str, **more: str) -> HttpResponse:
        query = dict(each.split("=", 1) for each in path.partition("?")[2].split("&") if each)
        headers = {"authorization": "Bearer right", "host": "localhost", **more}
        return self.site.respond(HttpRequest("GET", path.partition("?")[0], query, headers))

    def post(self, path: str, **form: str) -> HttpResponse:
        return self.site.respond(HttpRequest("POST", path, form=form))


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/", 303),
        ("/status.json", 401),
        ("/metrics", 401),
        ("/healthz", 200),
        ("/readyz", 200),
        ("/login", 200),
        ("/assets/page.css", 200),
        ("/assets/../site.py", 404),
        ("/assets/index.html", 404),
        ("/nothing", 404),
    ],
)
def test_without_a_token_there_is_health_and_a_form(path: str, code: int) -> None:
    answer = Scene().get(path, authorization="Bearer wrong")
    assert answer.status == code
    assert b"till" not in answer.body


@pytest.mark.parametrize("path", ["/", "/status.json", "/metrics"])
def test_on_loopback_nothing_is_asked_for_but_the_name(path: str) -> None:
    scene = Scene(token=None)
    assert scene.get(path, authorization="").status == 200
    refused = scene.get(path, host="evil.example")
    assert refused.status == 403
    assert b"http.tokenFile" in refused.body


def test_only_get_is_answered() -> None:
    site = Scene().site
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert site.respond(HttpRequest(method, "/status.json")).status == 405
    assert site.respond(HttpRequest("HEAD", "/healthz")).status == 200


def test_a_browser_gets_in_by_the_form_and_out_again() -> None:
    scene = Scene()
    wrong = scene.post("/login", token="wrong")
    assert wrong.status == 403
    assert b"not a token that may look" in wrong.body
    answer = scene.post("/login", token="right")
    assert (answer.status, dict(answer.headers)["Location"]) == (303, "/")
    cookie = dict(answer.headers)["Set-Cookie"].split(";")[0]
    page = scene.get("/", authorization="", cookie=cookie)
    assert page.status == 200
    policy = dict(page.headers)["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert b"<script>" not in page.body
    assert b"style=" not in page.body
    out = scene.site.respond(HttpRequest("POST", "/logout", headers={"cookie": cookie}))
    assert "Max-Age=0" in dict(out.headers)["Set-Cookie"]
    assert scene.get("/", authorization="", cookie=cookie).status == 303


def test_the_data_is_what_was_asked_for_and_made_once_a_second() -> None:
    scene = Scene()
    answer = scene.get("/status.json?search=ord&order=quiet&most=99999&peers=2")
    data = json.loads(answer.body)
    assert dict(answer.headers)["Cache-Control"] == "no-store"
    assert data["at"] == 5.0
    [intake] = data["intakes"]
    assert intake["place"] == "spool/a"
    assert intake["status"]["activity"]["channels"][0]["name"] == "orders"
    assert scene.seen == [ChannelQuery("ord", "quiet", MOST_CHANNELS, 2)]
    for _ in range(50):
        scene.get("/status.json?search=ord&order=quiet&most=99999&peers=2")
    assert len(scene.seen) == 1
    scene.now += FRESH_SECONDS
    scene.get("/status.json?search=ord&order=quiet&most=99999&peers=2")
    assert len(scene.seen) == 2
    assert scene.get("/status.json?order=nonsense").status == 200
    assert scene.get("/status.json?most=many").status == 400


def test_answers_to_many_questions_are_not_kept() -> None:
    scene = Scene()
    for number in range(100):
        scene.get(f"/status.json?search={number}")
    assert len(scene.site._answers) <= 8


def test_health_and_readiness_say_why() -> None:
    scene = Scene()
    scene.status = status(full=True)
    assert scene.get("/healthz").status == 200
    readiness = scene.get("/readyz")
    assert readiness.status == 503
    assert readiness.body.startswith(b"not ready: the spool is full")
    scene.now += FRESH_SECONDS
    scene.status = None
    assert scene.get("/healthz").status == 503
    assert scene.get("/readyz").body == b"not ready: it does not answer\n"
    assert scene.get("/metrics").status == 503
    data = json.loads(scene.get("/status.json").body)
    assert data["intakes"][0]["error"].startswith("[AQUEDUCT_INTAKE.UNREACHABLE]")


def test_the_page_of_several_intakes_has_no_metrics_of_one() -> None:
    scene = Scene(alone=False)
    assert scene.get("/").status == scene.get("/status.json").status == 200
    assert {scene.get(path).status for path in ("/metrics", "/healthz", "/readyz")} == {404}


@pytest.mark.parametrize("name", ASSETS)
def test_assets_are_there_and_load_nothing_from_elsewhere(name: str) -> None:
    answer = Scene().get(f"/assets/{name}")
    assert answer.status == 200
    assert answer.content_type == ASSETS[name]
    text = answer.body.decode().replace("http://www.w3.org/2000/svg", "")
    assert "http:" not in text
    assert "https:" not in text
