"""``aqueduct`` itself: its version, and completion for shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from aqueduct_core.cli.main import BROKEN_PIPE, SHELLS, main
from tests.support.waiting import environment


def script(capsys: pytest.CaptureFixture[str], shell: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(["--print-completion", shell])
    assert end.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_verbs_and_options_are_completed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = script(capsys, shell)
    for word in ("subscribe", "verify", "print-completion", "token-file", "give"):
        assert word in printed
    assert "waits for the acks and prints" not in printed  # a few words, and no paragraph
    if interpreter := shutil.which(shell):
        subprocess.run([interpreter, "-n"], input=printed.encode(), check=True)


def test_bash_completes_verbs_values_and_directories(
    capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    asked = """
    COMP_WORDS=(aqueduct {words}); COMP_CWORD={last}
    _shtab_aqueduct; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    printed = script(capsys, "bash")

    def completed(*words: str) -> set[str]:
        quoted = " ".join(f"'{word}'" for word in words)
        done = subprocess.run(
            ["bash", "--norc", "-c", printed + asked.format(words=quoted, last=len(words))],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return set(done.stdout.split())

    assert completed("s") == {"send", "spool", "subscribe"}
    assert completed("spool", "c") == {"cat", "cursors"}
    assert completed("send", "--re") == {"--reliability", "--resume", "--resume-from"}
    assert completed("send", "--wait", "c") == {"committed"}


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--print-completion", "cmd"])
    assert end.value.code == 2
    assert "cmd" in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("aqueduct ")


@pytest.mark.parametrize("verb", ["send", "subscribe"])
def test_only_what_is_required_is_missed(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([verb])
    assert end.value.code == 2
    assert "required: aqueduct://HOST:PORT. See" in capsys.readouterr().err


def test_a_reader_who_has_left_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "aqueduct_core.cli.main", "--print-completion", "bash"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=environment())
    os.close(write)
    assert (done.stderr, done.returncode) == (b"", BROKEN_PIPE)
