"""``aqueduct subscribe`` as a process, against remotes that do as told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.core.cli.running import aqueduct, events, messages, one_error
from tests.support.remote import RemoteThread, Script


def rows(out: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_named_channels_are_printed_until_they_finish(tmp_path: Path) -> None:
    scripts = {"a": Script(messages=3), "größe": Script(messages=2, children=1, child_messages=1)}
    with RemoteThread(scripts, tmp_path, producer="remote-1") as remote:
        done = aqueduct(
            "subscribe", remote.url, "a", "größe", "--ca", remote.ca_file, "-J", "-e",
            "-H", "from=start", "--payload", '{"get": "{name}"}',
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
        asked = {request.name: request for request in remote.requests}
    assert asked["größe"].payload == '{"get": "größe"}'.encode()
    assert asked["a"].headers == ((b"from", b"start"),)
    printed = rows(done.stdout)
    got = sorted((row["name"], row["num"], row["value"]) for row in messages(printed))
    assert got == [
        ("a", 0, "a 0"),
        ("a", 1, "a 1"),
        ("a", 2, "a 2"),
        ("größe", 0, "größe 0"),
        ("größe", 1, "größe 1"),
        ("größe/0", 0, "größe/0 0"),
    ]
    assert {row["producer"] for row in messages(printed)} == {"remote-1"}
    assert events(printed).count("finished") == 3


def test_without_a_name_there_is_one_request(tmp_path: Path) -> None:
    with RemoteThread({"": Script(messages=2)}, tmp_path) as remote:
        done = aqueduct("subscribe", remote.url, "--insecure", "-e", "-f", "%N|%s;")
        assert done.returncode == 0, done.stderr
        assert done.stdout == b"| 0;| 1;"
        assert [request.payload for request in remote.requests] == [b""]


def test_it_stops_after_so_many_messages(tmp_path: Path) -> None:
    with RemoteThread({"a": Script(messages=10, end="stay")}, tmp_path) as remote:
        done = aqueduct("subscribe", remote.url, "a", "--ca", remote.ca_file, "-c", "4")
        assert done.returncode == 0
        assert done.stdout == b"a 0\na 1\na 2\na 3\n"


@pytest.mark.parametrize(
    ("end", "error", "text"),
    [
        ("cancel", "AQUEDUCT_CHANNEL.CANCELLED", "'a'"),
        ("drop", "AQUEDUCT_CHANNEL.CANCELLED", "'a'"),
        ("vanish", "AQUEDUCT_CONNECT.NO_REPLY", "vanished"),
    ],
)
def test_a_channel_that_does_not_finish_is_an_error(
    tmp_path: Path, end: Any, error: str, text: str
) -> None:
    scripts = {"a": Script(messages=2, end=end), "b": Script(messages=1)}
    with RemoteThread(scripts, tmp_path) as remote:
        done = aqueduct("subscribe", remote.url, "a", "b", "--ca", remote.ca_file, "-J", "-e")
    assert text in one_error(done, error)
    got = [row["value"] for row in messages(rows(done.stdout)) if row["name"] == "a"]
    assert got == ([] if end == "drop" else ["a 0", "a 1"])


def test_a_token_and_a_certificate_are_needed(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("right\n")
    with RemoteThread({"a": Script(messages=1)}, tmp_path, token="right") as remote:
        where = ("subscribe", remote.url, "a", "-e")
        one_error(aqueduct(*where), "AQUEDUCT_TLS.UNKNOWN_CA")
        one_error(aqueduct(*where, "--ca", remote.ca_file), "AQUEDUCT_AUTH.REJECTED")
        done = aqueduct(*where, "--ca", remote.ca_file, "--token-file", token)
        assert (done.returncode, done.stdout) == (0, b"a 0\n")
