"""How ``aqueduct spool cat`` prints rows, and which."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.cli.main import main
from tests.core.cli.spool.stored import LINES, rows


def text(capsysbinary: pytest.CaptureFixture[bytes], *given: str | Path) -> bytes:
    assert main(["spool", "cat", *map(str, given)]) == 0
    captured = capsysbinary.readouterr()
    assert captured.err == b""
    return captured.out


def test_a_format_gives_back_what_was_sent(
    ended: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Without a line for the message that only brings the channel along."""
    lines = "".join(f"{line}\n" for line in LINES).encode()
    assert text(capsysbinary, ended, "-f", r"%s\n") == lines
    found = text(capsysbinary, ended, "-f", r"%P %o %n %N %k %r %S %s\n", "-c", "2")
    partition = found.split(b" ")[0]
    assert found == b"".join(
        b"%s %d %d lines colour=blue reliable 6 line %d\n" % (partition, offset, number, number)
        for offset, number in [(int(line.split(b" ")[1]), n) for n, line in enumerate(
            found.splitlines()
        )]
    )  # fmt: skip


def test_only_some_channels_and_producers(ended: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(rows(capsys, "cat", ended, "--channel", "lines")) == len(LINES)
    assert rows(capsys, "cat", ended, "--channel", "other") == []
    assert rows(capsys, "cat", ended, "--channel", "lines", "--producer", "nobody") == []
    # so many of those that are wanted
    found = rows(capsys, "cat", ended, "--channel", "other", "--channel", "lines", "-c", "3")
    assert [row["value"] for row in found] == LINES[:3]
