"""Mistakes at the command line, as users make them: the first line names what, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.cli.main import main

SEND = ["send", "aqueduct://127.0.0.1:1", "--insecure"]
OPTION = "AQUEDUCT_INVALID_OPTION"

MISTAKES: list[tuple[list[str], str, str]] = [
    # usage: exit code 2
    ([], f"{OPTION}.MISSING", "VERB|See aqueduct --help"),
    (["sned", "x"], f"{OPTION}.BAD_VALUE", "'sned' is none of|the nearest one is send"),
    (["send"], f"{OPTION}.MISSING", "aqueduct://HOST:PORT|See aqueduct send --help"),
    ([*SEND, "--chanel", "x"], f"{OPTION}.UNKNOWN", "'--chanel'|the nearest one is --channel"),
    ([*SEND, "--tokenfile=s3cret"], f"{OPTION}.UNKNOWN", "'--tokenfile'|--token-file"),
    ([*SEND, "--ack-timeout", "60"], f"{OPTION}.BAD_VALUE", "--ack-timeout|'60' is no duration"),
    ([*SEND, "--reliability", "order"], f"{OPTION}.BAD_VALUE", "the nearest one is ordered"),
    ([*SEND, "-H", "foo"], f"{OPTION}.BAD_VALUE", "'foo' is no header: write KEY=VALUE"),
    ([*SEND, "--delimiter", ""], f"{OPTION}.BAD_VALUE", "--whole-file"),
    ([*SEND, "--ca", "x"], f"{OPTION}.CONFLICT", "--ca|not allowed with"),
    (["listen"], f"{OPTION}.MISSING", "ADDRESS:PORT"),
    (["listen", "a:1", "b:2"], f"{OPTION}.UNKNOWN", "'b:2' is one argument too many"),
    (["listen", "127.0.0.1:0", "-J", "-f", "x"], f"{OPTION}.CONFLICT", "-f"),
    (["listen", "127.0.0.1:0", "--memory", "64"], f"{OPTION}.BAD_VALUE", "16m"),
    (["spool", "lss", "."], f"{OPTION}.BAD_VALUE", "the nearest one is ls"),
    (["spool", "ls"], f"{OPTION}.MISSING", "DIR|See aqueduct spool ls --help"),
    (["intake"], f"{OPTION}.MISSING", "--config"),
    # values: exit code 1
    (["send", "localhost:4433"], f"{OPTION}.BAD_VALUE", "does not start with aqueduct://"),
    (["send", "aqueduct://localhost"], f"{OPTION}.BAD_VALUE", "names no port"),
    (["send", "aqueduct://::1:4433"], f"{OPTION}.BAD_VALUE", "brackets|[::1]:4433"),
    (["send", "aqueduct://h:99999"], f"{OPTION}.BAD_VALUE", "no number from 1 to 65535"),
    (["send", "aqueduct://h:44x"], f"{OPTION}.BAD_VALUE", "no number from 1 to 65535"),
    (["send", "aqueduct://u:s3cret@h:1"], f"{OPTION}.BAD_VALUE", "use a token"),
    (["send", "aqueduct://u:s3cret@h:x"], f"{OPTION}.BAD_VALUE", "no number"),
    ([*SEND, "nofile"], f"{OPTION}.BAD_VALUE", "file nofile cannot be read: No such file"),
    ([*SEND, "dir"], f"{OPTION}.BAD_VALUE", "the file dir cannot be read: Is a directory"),
    ([*SEND, "empty", "nofile"], f"{OPTION}.BAD_VALUE", "the file nofile"),
    ([*SEND, "--channel", ""], f"{OPTION}.BAD_VALUE", "--channel is empty"),
    ([*SEND, "--producer", ""], f"{OPTION}.BAD_VALUE", "producer"),
    ([*SEND, "--producer", "a" * 100], f"{OPTION}.BAD_VALUE", "producer|64"),
    ([*SEND, "--resume"], f"{OPTION}.MISSING", "Give --producer ID too"),
    ([*SEND, "--token-file", "dir"], "AQUEDUCT_AUTH.MISSING", "dir cannot be read: Is a directory"),
    ([*SEND, "--token-file", "empty"], "AQUEDUCT_AUTH.MISSING", "empty is empty"),
    (["send", "aqueduct://h:1", "--ca", "dir"], f"{OPTION}.BAD_VALUE", "dir cannot be read: Is a"),
    (["send", "aqueduct://127.0.0.1:1", "--ca", "empty"], f"{OPTION}.BAD_VALUE", "empty holds no"),
    (["listen", "4433"], f"{OPTION}.BAD_VALUE", "'4433'|127.0.0.1:4433"),
    (["listen", "::1:4433"], f"{OPTION}.BAD_VALUE", "brackets"),
    (["listen", "127.0.0.1:0"], f"{OPTION}.MISSING", "--cert and --key"),
    (
        ["listen", "127.0.0.1:0", "--cert", "x"],
        f"{OPTION}.MISSING",
        "--cert is given without",
    ),
    (["listen", "127.0.0.1:0", "--key", "x"], f"{OPTION}.MISSING", "--key is given without --cert"),
    (["intake", "--config", "dir"], f"{OPTION}.BAD_VALUE", "dir cannot be read: Is a directory"),
    (["intake", "--config", "empty"], f"{OPTION}.MISSING", "empty|no spool|Set spool"),
    (["cert", "empty"], f"{OPTION}.BAD_VALUE", "empty is no directory"),
    (["cert", "new", "--days", "0"], f"{OPTION}.BAD_VALUE", "--days is 0|1 to 3650"),
    (["spool", "ls", "nowhere"], "AQUEDUCT_SPOOL.IO", "nowhere|No such file"),
    (["spool", "ls", "empty"], "AQUEDUCT_SPOOL.IO", "empty|Not a directory"),
    (["spool", "cat", "dir"], "AQUEDUCT_SPOOL.IO", "dir holds no spool"),
]


@pytest.mark.parametrize(
    ("arguments", "condition", "parts"), MISTAKES, ids=[" ".join(each[0])[:40] for each in MISTAKES]
)
def test_the_first_line(
    arguments: list[str],
    condition: str,
    parts: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dir").mkdir()
    (tmp_path / "empty").touch()
    usage = MISTAKES.index((arguments, condition, parts)) < USAGE
    if usage:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
    else:
        assert main(arguments) == 1
    told = capsys.readouterr().err
    line = told.splitlines()[0]
    assert line.startswith(f"[{condition}] "), told
    for part in parts.split("|"):
        assert part in line
    assert "s3cret" not in told
    assert "Traceback" not in told


USAGE = next(place for place, each in enumerate(MISTAKES) if each[0] == ["send", "localhost:4433"])
"""So many of the mistakes are of usage."""
