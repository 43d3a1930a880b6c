"""Commands that resume: sessions are in a directory from one to the next."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from aqueduct_core.transport.settings import ListenLimits
from tests.core.cli.running import aqueduct, listening, messages, one_error
from tests.support.remote import RemoteThread, Script

EARLY = ListenLimits(early_data=True)


def sessions(directory: Path) -> int:
    return (directory / "sessions-aqueduct.json").read_bytes().count(b'"state"')


@pytest.mark.parametrize(("flags", "count"), [((), 6), (("--producer", "p"), 9)])
def test_send_and_listen(
    certificates: Path, tmp_path: Path, flags: tuple[str, ...], count: int
) -> None:
    """The flags of both; and a command without ``--early-data`` resumes, too. The messages that
    carry channels count."""
    directory = tmp_path / "sessions"
    options = ("-J", "-c", str(count), "--early-data", "--retry", "always")
    with listening(certificates, *options) as listener:
        for early in (("--early-data",), ("--early-data",), ()):
            done = aqueduct(
                "send", listener.url, "--ca", certificates / "ca.pem", *flags, *early,
                "--session-directory", directory, stdin=b"a\nb\n",
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert b"sent=2 acked=2" in done.stdout
            assert sessions(directory) == 1
        values = [row["value"] for row in messages(listener.rows()) if row["value"]]
    assert values == ["a", "b"] * 3
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_subscribe_asks_early(tmp_path: Path) -> None:
    directory = tmp_path / "sessions"
    with RemoteThread({"a": Script(messages=2)}, tmp_path, limits=EARLY) as remote:
        for flags in ((), ("--early-data",), ("--early-data",)):
            done = aqueduct(
                "subscribe", remote.url, "a", "--ca", remote.ca_file, "-e", *flags,
                "--session-directory", directory,
            )  # fmt: skip
            assert (done.returncode, done.stdout) == (0, b"a 0\na 1\n"), done.stderr
            assert sessions(directory) == 1
        assert remote.early == [False, True, True]


@pytest.mark.parametrize("verb", [("subscribe", "a"), ("send",), ("send", "--producer", "p")])
def test_why_a_server_refused_is_told_as_without_early_data(
    tmp_path: Path, verb: tuple[str, ...]
) -> None:
    directory, token = tmp_path / "sessions", tmp_path / "token"

    with RemoteThread({"a": Script(messages=2)}, tmp_path, limits=EARLY, token="new") as remote:
        common = (
            "--ca", remote.ca_file, "--token-file", token, "--session-directory", directory,
        )  # fmt: skip
        token.write_text("new")
        seen = aqueduct("subscribe", remote.url, "a", "-e", *common)
        assert (seen.returncode, sessions(directory)) == (0, 1)
        token.write_text("old")
        done = aqueduct(verb[0], remote.url, *verb[1:], "--early-data", *common)
        one_error(done, "AQUEDUCT_AUTH.REJECTED")


def test_a_directory_that_cannot_be_made_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    below = tmp_path / "file" / "below"
    done = aqueduct("send", "aqueduct://127.0.0.1:1", "--session-directory", below)
    assert str(below) in one_error(done, "AQUEDUCT_INVALID_OPTION.BAD_VALUE")
