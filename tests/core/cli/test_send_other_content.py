"""``aqueduct send --producer`` with other input under numbers that are stored is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.cli.running import aqueduct, one_error
from tests.core.cli.test_send_resume import ca, stored
from tests.core.intake.processes import Site

LINES = [f"line {number}" for number in range(300)]

SAME = {
    "the same": LINES,
    "more behind it": [*LINES, "line 300"],
}
OTHER = {
    "another line": [*LINES[:150], "other", *LINES[151:]],
    "another order": [*reversed(LINES)],
    "fewer": LINES[:200],
    "more, and other ones": ["other", *LINES],
}


@pytest.mark.parametrize("name", [*SAME, *OTHER])
def test_fault_43_input_under_numbers_that_are_stored(tmp_path: Path, name: str) -> None:
    site = Site(tmp_path)
    path = tmp_path / "lines.txt"
    with site.intake() as intake:
        command = [
            "send",
            intake.url,
            "--ca",
            str(ca(site, tmp_path)),
            "--producer",
            "p",
            str(path),
        ]
        path.write_text("".join(f"{line}\n" for line in LINES))
        assert aqueduct(*command).returncode == 0
        path.write_text("".join(f"{line}\n" for line in (SAME | OTHER)[name]))
        again = aqueduct(*command, "--resume")
        if name in SAME:
            assert again.returncode == 0, again.stderr
        else:
            assert again.returncode != 0
            error = one_error(again, "AQUEDUCT_SINK.NOT_REPEATABLE")
            assert "channel 'lines' repeats" in error
            assert intake.status().counters["not_repeatable"] == 1
        assert [value for _, value in stored(intake)][:300] == [line.encode() for line in LINES]
        told = [event for event in intake.events() if event["kind"] == "repeated"]
        assert [event["first"] for event in told if event["channel"] == "lines"] == [0]
