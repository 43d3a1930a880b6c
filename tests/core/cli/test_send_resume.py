"""``aqueduct send --producer`` to a real intake: what broke off half way is completed."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.core.cli.running import AQUEDUCT, TIMEOUT, aqueduct, one_error, totals
from tests.support.intake_process import IntakeProcess, Site
from tests.support.waiting import environment, wait_until

LINES = 6_000


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"line {number}\n" for number in range(LINES)))
    return path


def stored(intake: IntakeProcess, channel: str = "lines") -> list[tuple[int, bytes]]:
    return [(row["messageNum"], row["value"]) for row in intake.rows() if row["channel"] == channel]


def expected(first: int, stop: int) -> list[tuple[int, bytes]]:
    return [(number, b"line %d" % number) for number in range(first, stop)]


def ca(site: Site, directory: Path) -> Path:
    path = directory / "ca.pem"
    assert site.client_tls.ca_pem is not None
    path.write_bytes(site.client_tls.ca_pem)
    return path


@pytest.mark.parametrize(
    "how",
    [
        signal.SIGKILL,
        *(pytest.param(how, marks=pytest.mark.long) for how in (signal.SIGTERM, signal.SIGINT)),
    ],
)
def test_the_same_input_again_completes_what_a_crash_left(
    site: Site, tmp_path: Path, file: Path, how: signal.Signals
) -> None:
    with site.intake() as intake:
        command = [
            "send",
            intake.url,
            "--ca",
            str(ca(site, tmp_path)),
            "--producer",
            "p",
            str(file),
        ]
        # a pipe that is held open: the command is in the midst of its input when it dies
        process = subprocess.Popen(
            [*AQUEDUCT, *command[:-1], "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        assert process.stdin is not None
        half = file.read_bytes().splitlines(keepends=True)[: LINES // 2]
        process.stdin.write(b"".join(half))
        process.stdin.flush()
        wait_until(lambda: len(stored(intake)) >= LINES // 4, TIMEOUT, "a quarter")
        process.send_signal(how)
        process.wait(TIMEOUT)  # before its input ends: that would be an end in good order
        out, _ = process.communicate(timeout=TIMEOUT)
        assert process.returncode != 0
        if how is not signal.SIGKILL:
            assert b"sent=" in out
        # without a word it could be the same input, or new input
        left = len(stored(intake))
        error = one_error(aqueduct(*command), "AQUEDUCT_INVALID_OPTION.MISSING")
        assert "did not come to its end. Give --resume" in error
        again = aqueduct(*command, "--resume")
        assert again.returncode == 0, again.stderr
        assert totals(again)["acked"] == LINES
        assert LINES // 4 <= left <= totals(again)["repeated"] <= LINES // 2
        assert stored(intake) == expected(0, LINES)
        third = aqueduct(*command, "--resume-from", str(LINES))
        assert (third.returncode, totals(third)["sent"]) == (0, 0)
        assert len(stored(intake)) == LINES


@pytest.mark.long
def test_resume_from_sends_only_the_rest(site: Site, tmp_path: Path, file: Path) -> None:
    with site.intake() as intake:
        command = ["send", intake.url, "--ca", str(ca(site, tmp_path)), "--producer", "p"]
        first = "".join(f"line {number}\n" for number in range(100)).encode()
        assert aqueduct(*command, stdin=first).returncode == 0
        rest = aqueduct(*command, "--resume-from", "100", str(file))
        assert (totals(rest)["sent"], totals(rest)["repeated"]) == (LINES - 100, 0)
        assert stored(intake) == expected(0, LINES)
        more = aqueduct(
            *command,
            "--sequence-start",
            str(LINES),
            stdin=f"line {LINES}\nline {LINES + 1}\n".encode(),
        )
        assert more.returncode == 0
        assert stored(intake) == expected(0, LINES + 2)


@pytest.mark.long
def test_a_command_that_gives_up_says_where_to_resume(site: Site, tmp_path: Path) -> None:
    with site.intake() as intake:
        process = subprocess.Popen(
            [*AQUEDUCT, "send", intake.url, "--ca", str(ca(site, tmp_path)), "--producer", "p",
             "--ack-timeout", "10s"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(),
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(b"0\n1\n2\n")
        process.stdin.flush()
        wait_until(lambda: intake.status().counters["rows"] >= 3, TIMEOUT, "three rows")
        intake.kill()
        out, errors = process.communicate(b"3\n4\n", timeout=TIMEOUT)
    assert process.returncode == 1
    assert out.startswith(b"sent=5 ")
    # how many acks came before the end is chance
    told = re.search(
        rb"messages up to ([0-3]) \(exclusive\) are stored: .*resume-from (\d) ", errors
    )
    assert told is not None, errors
    assert told[1] == told[2]
    with site.intake() as intake:
        command = ["send", intake.url, "--ca", str(ca(site, tmp_path)), "--producer", "p"]
        rest = aqueduct(*command, "--resume-from", told[1].decode(), stdin=b"0\n1\n2\n3\n4\n")
        assert rest.returncode == 0, rest.stderr
        # more may be stored than is known to be: then all are sent, and compared
        assert totals(rest)["sent"] == (2 if told[1] == b"3" else 5)
        assert stored(intake) == [(n, b"%d" % n) for n in range(5)]


def test_wait_committed_returns_with_the_commit_of_a_query(site: Site, tmp_path: Path) -> None:
    with site.intake() as intake, intake.client() as query:
        waiting = ["send", intake.url, "--ca", str(ca(site, tmp_path)), "--wait", "committed"]
        for attempt, patience in enumerate(("300ms", "3s", "30s")):  # until it suffices for acks
            command = [*waiting, "--producer", f"p{attempt}"]
            late = aqueduct(*command, "--ack-timeout", patience, stdin=b"a\nb\n")
            assert late.returncode == 1
            if b"acked=2 " in late.stdout:
                break
        assert b"[AQUEDUCT_SINK.ACK_TIMEOUT] 2 messages are not committed" in late.stderr
        assert late.stdout.startswith(b"committed=0\nsent=2 acked=2 ")
        assert b"again with --resume" in late.stderr
        one_error(aqueduct(*command, stdin=b"a\nb\n"), "AQUEDUCT_INVALID_OPTION.MISSING")
        process = subprocess.Popen(
            [*AQUEDUCT, *command, "--resume"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(),
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(b"a\nb\nc\n")
        process.stdin.close()
        process.stdin = None

        def ended() -> bool:
            query.commit("query", query.status().ends)
            return process.poll() is not None

        wait_until(ended, TIMEOUT, "the end of send")
        out, errors = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, errors
        assert out.startswith(b"committed=3\nsent=3 acked=3 nacked=0 repeated=2 ")
        mine = [row for row in intake.rows() if row["producer"] == f"p{attempt}"]
        lines = [(row["messageNum"], row["value"]) for row in mine if row["channel"] == "lines"]
        assert lines == [(0, b"a"), (1, b"b"), (2, b"c")]


@pytest.mark.parametrize(
    ("options", "subclass"),
    [
        (["--wait", "committed"], "MISSING"),
        (["--sequence-start", "5"], "MISSING"),
        (["--resume-from", "0"], "MISSING"),
        (["--producer", "p", "--sequence-start", "5", "--resume-from", "4"], "BAD_VALUE"),
        (["--producer", "p", "--wait", "committed", "--reliability", "unreliable"], "CONFLICT"),
        (["--resume"], "MISSING"),
        (["--append"], "MISSING"),
        (["--producer", "p", "--append", "--sequence-start", "5"], "CONFLICT"),
        (["--producer", "p", "--resume", "--reliability", "unreliable"], "CONFLICT"),
        (["--producer", "p", "--sequence-start", "5", "--reliability", "unreliable"], "CONFLICT"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: list[str], subclass: str) -> None:
    result = aqueduct("send", "aqueduct://127.0.0.1:1", *options)
    line = one_error(result, f"AQUEDUCT_INVALID_OPTION.{subclass}")
    assert any(option in line for option in options if option.startswith("--"))


def test_a_number_is_decimal_digits() -> None:
    result = aqueduct("send", "aqueduct://127.0.0.1:1", "--producer", "p", "--resume-from", "x")
    assert b"'x' is not a number" in result.stderr
