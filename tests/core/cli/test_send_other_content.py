"""``aqueduct send --producer`` with other input under numbers that are stored is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.cli.running import aqueduct, one_error, totals
from tests.core.cli.test_send_resume import ca, stored
from tests.support.intake_process import IntakeProcess, Site

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
SOME, *FURTHER = OTHER
REST = [pytest.param(name, marks=pytest.mark.long) for name in FURTHER]


@pytest.mark.parametrize("name", [*SAME, SOME, *REST])
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


def test_fault_43_numbers_that_were_given_out_before(tmp_path: Path) -> None:
    """Without a word they are refused; a repeat is compared, also where it ends with its run."""
    site = Site(tmp_path)
    with site.intake() as intake:
        command = ["send", intake.url, "--ca", str(ca(site, tmp_path)), "--producer", "p"]
        for day in (b"mon", b"tue"):
            assert aqueduct(*command, stdin=b"%b 0\n%b 1\n" % (day, day)).returncode == 0
        again = aqueduct(*command, "--sequence-start", "1", stdin=b"wed 0\nwed 1\nwed 2\nwed 3\n")
        assert "stands at 4" in one_error(again, "AQUEDUCT_INVALID_OPTION.BAD_VALUE")
        monday = (*command, "--sequence-start", "0", "--resume")
        same = aqueduct(*monday, stdin=b"mon 0\nmon 1\n")
        assert same.returncode == 0, same.stderr
        assert totals(same)["repeated"] == 2
        other = aqueduct(*monday, stdin=b"mon 0\nmon two\n")
        assert "channel 'lines' repeats 2" in one_error(other, "AQUEDUCT_SINK.NOT_REPEATABLE")
        assert [value for _, value in stored(intake)] == [b"mon 0", b"mon 1", b"tue 0", b"tue 1"]


@pytest.mark.parametrize("name", [SOME, *REST])
def test_fault_43_a_later_run_with_other_input(tmp_path: Path, name: str) -> None:
    """Behind what earlier runs sent, and after a restart of the intake."""
    site = Site(tmp_path)
    command = ["send", "--ca", str(ca(site, tmp_path)), "--producer", "p"]

    def text(lines: list[str]) -> bytes:
        return "".join(f"{line}\n" for line in lines).encode()

    with site.intake() as intake:
        for day in ("mon", "tue"):
            earlier = aqueduct(*command, intake.url, stdin=text([f"{day} {n}" for n in range(7)]))
            assert earlier.returncode == 0, earlier.stderr
        assert aqueduct(*command, intake.url, stdin=text(LINES)).returncode == 0
        intake.kill()
    with site.intake() as intake:
        same = aqueduct(*command, intake.url, "--resume", stdin=text(LINES))
        assert same.returncode == 0, same.stderr
        again = aqueduct(*command, intake.url, "--resume", stdin=text(OTHER[name]))
        assert again.returncode != 0
        assert "channel 'lines' repeats" in one_error(again, "AQUEDUCT_SINK.NOT_REPEATABLE")


@pytest.mark.parametrize(
    "restart",
    [
        pytest.param(False, id="remembered", marks=pytest.mark.long),
        pytest.param(True, id="after a restart"),
    ],
)
def test_fault_43_the_rest_of_other_input(tmp_path: Path, restart: bool) -> None:
    """Less of it than is stored, from inside the run on."""
    site = Site(tmp_path)
    command = ["send", "--ca", str(ca(site, tmp_path)), "--producer", "p"]
    rest = (*command, "--resume-from", "2")
    with site.intake() as intake:
        assert aqueduct(*command, intake.url, stdin=b"0\n1\n2\n3\n").returncode == 0
        if not restart:
            _check_rest(rest, intake)
    if restart:
        with site.intake() as intake:
            _check_rest(rest, intake)


def _check_rest(rest: tuple[str, ...], intake: IntakeProcess) -> None:
    other = aqueduct(*rest, intake.url, stdin=b"0\n1\ntwo\n3\n")
    assert "channel 'lines' repeats" in one_error(other, "AQUEDUCT_SINK.NOT_REPEATABLE")
    same = aqueduct(*rest, intake.url, stdin=b"0\n1\n2\n3\n")
    assert same.returncode == 0, same.stderr
    assert totals(same)["repeated"] == 4
    assert [value for _, value in stored(intake)] == [b"0", b"1", b"2", b"3"]
