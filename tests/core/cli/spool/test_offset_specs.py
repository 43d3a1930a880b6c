"""Where in a spool a command begins or ends."""

from __future__ import annotations

import argparse
import time

import pytest

from aqueduct_core.cli.spool.offset_specs import Edge, Last, Moment, Offset, OffsetSpec, offset_spec


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("earliest", Edge("earliest")),
        ("beginning", Edge("earliest")),
        ("latest", Edge("latest")),
        ("end", Edge("latest")),
        ("0", Offset(0)),
        ("120", Offset(120)),
        ("-5", Last(5)),
        ("s@1800000000123", Moment(1_800_000_000_123_000)),
        ("2027-01-15T08:00:00.5Z", Moment(1_800_000_000_500_000)),
        ("2027-01-15T08:00:00", Moment(1_800_000_000_000_000)),
        ("2027-01-15T10:00:00+02:00", Moment(1_800_000_000_000_000)),
        ("2027-01-15", Moment(1_799_971_200_000_000)),
    ],
)
def test_what_is_understood(text: str, spec: OffsetSpec) -> None:
    assert offset_spec(text) == spec


def test_an_age_counts_from_now() -> None:
    before = time.time() - 900
    found = offset_spec("15m")
    assert isinstance(found, Moment)
    assert before <= found.microseconds / 1_000_000 <= time.time() - 900 + 0.001


@pytest.mark.parametrize("text", ["", "first", "1.5", "--5", "-", "2027-13-01", "s@x", "9" * 19])
def test_what_is_not_understood_is_told_with_what_is(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="earliest, latest, an offset, -N"):
        offset_spec(text)
