"""Values of the command line: durations, sizes, headers, delimiters."""

from __future__ import annotations

import argparse

import pytest

from aqueduct_core.cli.console import arguments


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("10s", 10.0), ("1.5m", 90.0), ("7d", 604_800.0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert arguments.duration(text) == seconds


@pytest.mark.parametrize("text", ["10", "-1s", "s", "10y", ""])
def test_durations_need_a_unit(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="duration"):
        arguments.duration(text)


@pytest.mark.parametrize(("text", "size"), [("8m", 8 << 20), ("1g", 1 << 30)])
def test_memory(text: str, size: int) -> None:
    assert arguments.memory(text) == size


@pytest.mark.parametrize("text", ["512", "7m", "x", "-1g"])
def test_no_memory(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        arguments.memory(text)


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (r"\n", b"\n"),
        (r"\0", b"\0"),
        (";;", b";;"),
        (r"\x1e", b"\x1e"),
        (r"\xff", b"\xff"),
        ("ä", "ä".encode()),
    ],
)
def test_delimiters(text: str, data: bytes) -> None:
    assert arguments.delimiter(text) == data


@pytest.mark.parametrize("text", ["", r"\q"])
def test_delimiters_that_are_none(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        arguments.delimiter(text)
