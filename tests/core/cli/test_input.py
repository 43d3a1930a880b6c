"""What is sent: lines, whole files, standard input as it comes."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from tests.core.cli.running import (
    AQUEDUCT,
    TIMEOUT,
    aqueduct,
    listening,
    messages,
    totals,
)


def test_whole_files_of_ten_megabytes_and_of_nothing(certificates: Path, tmp_path: Path) -> None:
    large, empty = tmp_path / "large", tmp_path / "empty"
    content = bytes(range(256)) * 40_000
    large.write_bytes(content)
    empty.write_bytes(b"")
    with listening(certificates, "-f", "%S:%s|", "-e") as listener:
        done = aqueduct(
            "send", listener.url, "--ca", certificates / "ca.pem", "--whole-file", large, empty
        )
        assert done.returncode == 0, done.stderr
        counts = totals(done)
        assert (counts["sent"], counts["acked"], counts["bytes"]) == (2, 2, len(content))
        code, out = listener.end()
    assert code == 0
    assert out == b"%d:" % len(content) + content + b"|0:|"


def test_other_delimiters_and_several_files(certificates: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1;;2;;")
    (tmp_path / "b").write_bytes(b"3;4")
    with listening(certificates, "-f", r"[%s]", "-e") as listener:
        done = aqueduct(
            "send", listener.url, "--ca", certificates / "ca.pem", "--delimiter", ";;",
            tmp_path / "a", tmp_path / "b",
        )  # fmt: skip
        assert totals(done)["sent"] == 3
        assert listener.end() == (0, b"[1][2][3;4]")


def test_no_input_is_no_message(certificates: Path) -> None:
    with listening(certificates, "-J", "-e") as listener:
        done = aqueduct("send", listener.url, "--ca", certificates / "ca.pem")
        assert done.returncode == 0
        assert totals(done)["sent"] == 0
        assert messages(listener.rows()) == []


def test_a_slow_standard_input_is_sent_as_it_comes(certificates: Path) -> None:
    with listening(certificates, "-f", r"%s\n", "-c", "2") as listener:
        command = [*AQUEDUCT, "send", listener.url, "--ca", str(certificates / "ca.pem")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sending:
            assert sending.stdin is not None
            sending.stdin.write(b"first\n")
            sending.stdin.flush()
            listener.line(r"# (connected).*")
            sending.stdin.write(b"second\n")
            sending.stdin.flush()
            assert listener.end() == (0, b"first\nsecond\n")
            sending.stdin.close()
            sending.wait(TIMEOUT)


def test_standard_input_that_is_closed_is_told_before_anybody_is_dialled() -> None:
    command = " ".join([*map(shlex.quote, map(str, AQUEDUCT)), "send", "aqueduct://localhost:1"])
    done = subprocess.run(
        ["sh", "-c", f"{command} <&-"], capture_output=True, check=False, timeout=TIMEOUT
    )
    assert done.returncode == 1
    assert b"AQUEDUCT_INVALID_OPTION.MISSING] standard input is closed. Name files" in done.stderr
