"""``aqueduct request`` against servers that reply, that do not, and an intake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.core.cli.running import aqueduct, events, listening, messages, one_error
from tests.support.intake_process import Site
from tests.support.remote import RemoteThread, Script


def test_one_reply_is_printed(tmp_path: Path) -> None:
    with RemoteThread({"": Script(messages=1, end="stay")}, tmp_path) as remote:
        done = aqueduct("request", remote.url, "how late?", "--ca", remote.ca_file, "-H", "k=v")
        assert (done.returncode, done.stdout) == (0, b" 0\n"), done.stderr
        [request] = remote.requests
    assert request.payload == b"how late?"
    assert request.headers == ((b"k", b"v"),)


def test_as_many_as_are_asked_for_or_all(tmp_path: Path) -> None:
    scripts = {"": Script(messages=5)}
    with RemoteThread(scripts, tmp_path) as remote:
        where = ("request", remote.url, "-", "--ca", remote.ca_file)
        done = aqueduct(*where, "-c", "2", stdin=b"all\nof it\n")
        assert (done.returncode, done.stdout) == (0, b" 0\n 1\n"), done.stderr
        assert remote.requests[0].payload == b"all\nof it\n"
        for asked in (("-c", "9"), ("--all",)):
            done = aqueduct(*where, *asked, "-J")
            assert done.returncode == 0, done.stderr
            printed = [json.loads(line) for line in done.stdout.splitlines()]
            assert [row["num"] for row in messages(printed)] == [0, 1, 2, 3, 4]
            assert "finished" in events(printed)


@pytest.mark.parametrize(
    ("script", "error", "text"),
    [
        (Script(messages=0), "AQUEDUCT_CHANNEL.NO_REPLY", "without one"),
        (Script(messages=0, end="stay"), "AQUEDUCT_CHANNEL.NO_REPLY", "in 0.3 s"),
        (Script(messages=0, end="cancel"), "AQUEDUCT_CHANNEL.CANCELLED", "behind 0 replies"),
        (Script(messages=1, end="cancel"), "AQUEDUCT_CHANNEL.CANCELLED", "behind 1 replies"),
        (Script(messages=1, end="stay"), "AQUEDUCT_CHANNEL.NO_REPLY", "behind the 1 that came"),
        (Script(messages=0, end="vanish"), "AQUEDUCT_CHANNEL.LOST", "was closed"),
        (Script(end="drop"), "AQUEDUCT_CHANNEL.CANCELLED", "behind 0 replies"),
    ],
)
def test_without_enough_replies_it_fails(
    tmp_path: Path, script: Script, error: str, text: str
) -> None:
    with RemoteThread({"": script}, tmp_path) as remote:
        asked = ("--timeout", "300ms") if script.end == "stay" else ()
        done = aqueduct("request", remote.url, "x", "--ca", remote.ca_file, "-J", "--all", *asked)
    assert text in one_error(done, error)


def test_a_listener_replies_to_what_wants_a_reply(certificates: Path) -> None:
    with listening(certificates, "--reply", "it is late", "-J", "-c", "4") as listener:
        where = ("request", listener.url, "how late?", "--ca", certificates / "ca.pem")
        for channel in ((), ("--channel", "clock")):
            done = aqueduct(*where, *channel)
            assert (done.returncode, done.stdout) == (0, b"it is late\n"), done.stderr
        sent = aqueduct("send", listener.url, "--ca", certificates / "ca.pem", stdin=b"plain\n")
        assert sent.returncode == 0
        printed = listener.rows()
    got = [(row["name"], row["value"]) for row in messages(printed)]
    assert got == [(None, "how late?"), (None, ""), ("clock", "how late?"), (None, "plain")]


def test_an_intake_stores_the_request_and_says_that_it_does_not_reply(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.intake() as intake:
        for channel in ((), ("--channel", "clock")):
            done = aqueduct("request", intake.url, "how late?", "--insecure", *channel)
            assert done.returncode == 1
            told = done.stderr.decode().splitlines()[-1]
            assert told.startswith("[AQUEDUCT_CHANNEL.NO_REPLY] ")
            assert "an intake stores the message, and its ack is the answer" in told
        rows: list[dict[str, Any]] = intake.rows()
    stored = {(row["channel"], row["value"]) for row in rows if row["value"]}
    assert stored == {("0", b"how late?"), ("clock", b"how late?")}
