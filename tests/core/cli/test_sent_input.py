"""How far `send` is, in bytes of its input."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.cli.input import SentInput, input_bytes
from tests.core.cli.running import listening, seen

BATCHES = st.lists(st.lists(st.binary(max_size=9), max_size=5))


@given(left_out=st.lists(st.binary(max_size=9)), batches=BATCHES, delimiter=st.integers(0, 3))
def test_what_is_settled_is_a_beginning_of_the_input(
    left_out: list[bytes], batches: list[list[bytes]], delimiter: int
) -> None:
    sent = SentInput(delimiter)
    sent.leave_out(left_out)
    ends = [(0, sum(len(each) + delimiter for each in left_out))]
    for batch in batches:
        sent.send(batch)
        messages, end = ends[-1]
        ends.append((messages + len(batch), end + sum(len(each) + delimiter for each in batch)))
    assert sent.payload_bytes == sum(len(each) for batch in batches for each in batch)
    for acked in range(ends[-1][0] + 1):
        sent.settle(acked)
        assert sent.settled_bytes == max(end for messages, end in ends if messages <= acked)
    assert sent.settled_bytes == ends[-1][1]


def test_the_size_of_an_input_is_known_where_all_of_it_are_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, pipe = tmp_path / "first", tmp_path / "second", tmp_path / "pipe"
    first.write_bytes(b"x" * 100)
    second.write_bytes(b"y" * 10)
    os.mkfifo(pipe)
    assert input_bytes([first, second]) == 110
    assert input_bytes([first, pipe]) is None
    with open(first, "rb", buffering=0) as given:
        given.read(30)  # as where a shell has read a head of it
        monkeypatch.setattr("aqueduct_core.cli.input.STDIN", given.fileno())
        assert input_bytes([]) == 70
        assert input_bytes([second, Path("-")]) == 80


def test_a_bar_by_bytes_says_how_long_the_rest_takes(certificates: Path, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"x\n" * 30_000)
    with listening(certificates, "-f", "", "-e") as listener:
        code, shown = seen(
            "send", listener.url, "--ca", certificates / "ca.pem", tmp_path / "lines", TERM="xterm"
        )
    assert code == 0
    assert "/60.0 kB" in shown
    assert "eta" in shown


def test_where_the_size_is_not_known_the_bar_counts_messages(certificates: Path) -> None:
    with listening(certificates, "-f", "", "-e") as listener:
        code, shown = seen("send", listener.url, "--ca", certificates / "ca.pem", TERM="xterm")
    assert code == 0
    assert "messages" in shown
    assert "eta" not in shown
