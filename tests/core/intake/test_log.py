"""The log of a real intake: nobody forges a line, and nobody else says how long it gets."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import ssl
from pathlib import Path

import pyarrow.flight as fl
import pytest

from aqueduct import connect
from aqueduct_core.errors import AuthFailed
from aqueduct_core.flight.authenticated import dial
from aqueduct_core.intake import process
from aqueduct_core.intake.__main__ import main
from aqueduct_core.intake.settings.intake import AuthSettings
from aqueduct_core.intake.storage.layout import LOG_FILE
from aqueduct_core.logs.refusals import LINES
from aqueduct_core.logs.rotation import older
from tests.core.intake.lives import run
from tests.support.intake_process import Site
from tests.support.waiting import LONG

BEGINS = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ \S+: ")
LOG_BYTES = 3_000


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def small_log() -> int:
    """An intake whose log is rotated soon."""
    process.MAX_LOG_BYTES = LOG_BYTES
    return main()


async def close_with(url: str, site: Site, reason: str, times: int = 1) -> None:
    for _ in range(times):
        connection = await connect(url, tls=site.client_tls)
        connection.abort(reason)
        await connection.wait_closed()


def test_a_close_reason_forges_no_line(site: Site) -> None:
    forged = "bye\n2030-01-01 00:00:00,000 INFO aqueduct_core: all is well\x1b[8m\u202e"
    with site.intake() as intake:
        run(close_with(intake.url, site, forged))
        assert intake.terminate() == 0
    lines = site.log.read_text().splitlines()
    assert all(BEGINS.match(line) for line in lines)
    (closed,) = [line for line in lines if "closed by peer" in line]
    assert closed.endswith(
        r"bye\n2030-01-01 00:00:00,000 INFO aqueduct_core: all is well\x1b[8m\u202e"
    )


def test_refusals_have_a_bounded_number_of_lines_and_a_count(site: Site) -> None:
    attempts = LINES + 7

    async def knock(url: str) -> None:
        for i in range(attempts):
            with contextlib.suppress(AuthFailed):
                await connect(url, tls=site.client_tls, token=f"wrong-{i}")

    with site.intake(auth=AuthSettings(token="right")) as intake:
        run(knock(intake.url))
        with dial(intake.ready["flight"], site.credentials) as client:
            for _ in range(attempts):
                with pytest.raises(fl.FlightUnauthenticatedError):
                    list(client.do_action(fl.Action("status", b"")))
        assert intake.terminate() == 0
    log = site.log.read_text()
    assert log.count("the bearer token is not accepted") <= 2 * LINES
    assert "connections refused: 7 more in the last 10 s, without a line each" in log
    assert log.count("a Flight call is refused: a bearer token is required") == LINES
    assert "Flight calls refused: 7 more in the last 10 s, without a line each" in log
    assert "wrong-" not in log


def test_handshakes_that_fail_at_the_port_of_flight_write_no_lines(site: Site) -> None:
    trusting = ssl.create_default_context(cadata=site.credentials.authority.decode())
    name = site.credentials.server_name
    with site.intake() as intake:
        host, port = intake.ready["flight"].rsplit(":", 1)
        for _ in range(LINES):
            stranger = socket.create_connection((host, int(port)), timeout=LONG)
            with trusting.wrap_socket(stranger, server_hostname=name) as refused:
                assert refused.recv(1) == b""
            with socket.create_connection((host, int(port)), timeout=LONG) as noise:
                noise.sendall(b"GET / HTTP/1.1\r\n\r\n")
                while noise.recv(100):
                    pass
        assert intake.terminate() == 0
    assert all(BEGINS.match(line) for line in site.log.read_text().splitlines())


def test_the_log_is_rotated_by_size_through_kills_and_two_lives(site: Site) -> None:
    site.spool.mkdir(parents=True)
    site.log = site.spool / LOG_FILE
    opened = 0
    for life in range(3):
        with site.intake(small_log) as intake:
            for _ in range(4):
                run(close_with(intake.url, site, "x" * 150, times=5))
                opened += 5
            if life < 2:
                intake.signal(signal.SIGKILL)
                intake.wait()
            else:
                with contextlib.suppress(Exception), site.intake(small_log):
                    pass  # one more, which finds the spool locked
                run(close_with(intake.url, site, "the last one"))
                assert intake.terminate() == 0
    kept = [site.log, older(site.log)]
    assert sorted(each.name for each in site.spool.glob("intake.log*")) == [
        each.name for each in kept
    ]
    longest = 1_000  # of what one write can add
    assert all(each.stat().st_size < LOG_BYTES + longest for each in kept)
    assert older(site.log).stat().st_size >= LOG_BYTES
    assert "the last one" in site.log.read_text() + older(site.log).read_text()
    assert all(
        BEGINS.match(line) or "AQUEDUCT_SPOOL.LOCKED" in line
        for each in kept
        for line in each.read_text().splitlines()
    )


def test_a_log_of_json_has_an_object_a_line(site: Site) -> None:
    with site.intake(log_format="json", name="till") as intake:
        run(close_with(intake.url, site, 'bye"}\n{"level": "INFO"}'))
        intake.terminate()
    found = [json.loads(line) for line in site.log.read_text().splitlines()]
    assert all({"time", "level", "event", "message"} <= line.keys() for line in found)
    events = {line["event"]: line for line in found}
    assert events["intake-ready"]["fields"]["epoch"] == 1
    assert events["connection-opened"]["fields"]["peer"].startswith("127.0.0.1:")
    assert r"bye\"}\n{\"level" in events["connection-ended"]["fields"]["how"].replace('"', '\\"')
    assert events["intake-ending"]["fields"] == {"reason": "SIGTERM"}
