"""What is told of rows that cannot be had names the way out, as a line for a shell."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from aqueduct_core.errors import AqueductError
from aqueduct_core.spool.losses import corrupt, offset_ahead, range_gone, unreadable_segment

DIRECTORY = Path("/a spool/of $ome/one's")
SEGMENT = DIRECTORY / "segment-000000000003.arrows"


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (range_gone(DIRECTORY, 1, 4, 9), ["--partition", "1", "--from", "4", "--to", "9"]),
        (corrupt(SEGMENT, 0, 4, 9, "why"), ["--partition", "0", "--from", "4", "--to", "9"]),
        (
            offset_ahead(DIRECTORY, 2, 9, 4),
            ["--partition", "2", "--from", "4", "--to", "9", "--ahead"],
        ),
        (unreadable_segment(SEGMENT, 3, " is missing"), ["--segment", "3"]),
    ],
)
def test_the_command_gives_up_these_rows(error: AqueductError, arguments: list[str]) -> None:
    _, _, command = error.remedy.partition(": aqueduct ")
    assert shlex.split(command) == ["spool", "skip", str(DIRECTORY), *arguments]
