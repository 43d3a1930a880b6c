"""How values are written by what looks into a spool."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from aqueduct_core.cli.spool.values import plain, size


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, None),
        (7, 7),
        (b"text", "text"),
        (b"\xff", {"base64": "/w=="}),
        (datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "2026-01-02T03:04:05.000006Z"),
        (
            datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))),
            "2026-01-02T01:00:00.000000Z",
        ),
        ([["k", b"v"], {"a": [b"b"]}], [["k", "v"], {"a": ["b"]}]),
    ],
)
def test_values_of_rows_as_json_has_them(value: object, written: object) -> None:
    assert plain(value) == written


@pytest.mark.parametrize(
    ("count", "written"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 40, "5120.0 GiB")]
)
def test_sizes_for_people(count: int, written: str) -> None:
    assert size(count) == written
