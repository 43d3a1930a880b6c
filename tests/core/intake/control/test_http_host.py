"""What an intake serves over HTTP, as a process: on loopback, and where it asks for a token."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from aqueduct_core.errors import IntakeFailed, InvalidOption
from aqueduct_core.intake.settings.service import HttpSettings
from tests.core.intake.lives import run, send_some
from tests.support.intake_process import IntakeProcess, Site
from tests.support.waiting import LONG


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def fetch(
    intake: IntakeProcess,
    path: str,
    token: str | None = None,
    trust: ssl.SSLContext | None = None,
) -> tuple[int, str]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(intake.ready["http"] + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=LONG, context=trust) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_metrics_health_and_data_of_an_intake_that_stores_messages(site: Site) -> None:
    with site.intake(http=HttpSettings(listen="127.0.0.1:0"), name="till") as intake:
        assert intake.ready["http"].startswith("http://127.0.0.1:")
        run(send_some(intake.url, site, "first", 100))
        assert fetch(intake, "/healthz") == (200, "ok\n")
        assert fetch(intake, "/readyz") == (200, "ready\n")
        _, text = fetch(intake, "/metrics")
        lines = set(text.splitlines())
        assert 'aqueduct_messages_total{reliability="reliable"} 101.0' in lines
        assert "aqueduct_spool_epoch 1.0" in lines
        assert any(line.startswith("process_resident_memory_bytes") for line in lines)
        _, body = fetch(intake, "/status.json?search=first&order=messages")
        [found] = json.loads(body)["intakes"]
        assert found["status"]["name"] == "till"
        assert [each["messages"] for each in found["status"]["activity"]["channels"]] == [100]
        assert site.credentials.token not in body + text
        assert intake.status().http == intake.ready["http"]
        assert "page and metrics on http://127.0.0.1:" in site.log.read_text()
        assert intake.terminate() == 0


def test_beyond_loopback_it_is_https_and_asks_for_the_token_of_the_spool(site: Site) -> None:
    trust = ssl.create_default_context(cadata=site.credentials.authority.decode())
    with site.intake(http=HttpSettings(listen="0.0.0.0:0")) as intake:
        intake.ready["http"] = intake.ready["http"].replace("0.0.0.0", "127.0.0.1")
        assert intake.ready["http"].startswith("https://")
        assert fetch(intake, "/healthz", trust=trust)[0] == 200
        assert fetch(intake, "/metrics", trust=trust)[0] == 401
        assert fetch(intake, "/metrics", "wrong", trust)[0] == 401
        assert fetch(intake, "/metrics", site.credentials.token, trust)[0] == 200
        with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
            fetch(intake, "/healthz")


def test_tokens_of_those_who_may_look_come_from_a_file(site: Site, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("one\ntwo\n")
    http = HttpSettings(listen="127.0.0.1:0", token_file=str(tokens))
    with site.intake(http=http) as intake:
        assert fetch(intake, "/metrics")[0] == 401
        assert fetch(intake, "/metrics", site.credentials.token)[0] == 401
        assert fetch(intake, "/metrics", "two")[0] == 200
        tokens.write_text("three\n")
        assert fetch(intake, "/metrics", "two")[0] == 401
        assert fetch(intake, "/metrics", "three")[0] == 200


def test_what_cannot_be_served_stops_the_start(site: Site, tmp_path: Path) -> None:
    with site.intake(http=HttpSettings(listen="127.0.0.1:0")) as intake:
        taken = intake.ready["http"].removeprefix("http://")
        other = Site(tmp_path / "other")
        with (
            pytest.raises(IntakeFailed, match=r"UNREACHABLE.*http\.listen"),
            other.intake(http=HttpSettings(listen=taken)),
        ):
            pass
    with (
        pytest.raises(InvalidOption, match="none cannot be read"),
        site.intake(http=HttpSettings(listen="127.0.0.1:0", token_file=str(tmp_path / "none"))),
    ):
        pass


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"listen": "9464"}, r"http\.listen is '9464'"),
        ({"listen": "h:99999"}, r"http\.listen"),
        ({"token_file": "tokens"}, r"http\.tokenFile is set without http\.listen"),
    ],
)
def test_settings_that_have_no_meaning_are_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidOption, match=text):
        HttpSettings(**given)
