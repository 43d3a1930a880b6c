"""``aqueduct quicr post``: lines and files as objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aqueduct_core.quicr.media.fragment import MAX_OBJECT
from tests.core.cli.quicr.running import trust
from tests.core.cli.running import Listener, aqueduct, one_error


def test_the_last_line_says_what_was_posted(origin: Listener, certificates: Path) -> None:
    where = ("quicr", "post", origin.url, *trust(certificates))
    done = aqueduct(*where, "post/a", stdin=b"one\n\ntwo\n")
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    assert done.stderr.startswith(b"2 objects, 6 bytes in ")
    done = aqueduct(*where, "post/b", "-J", "--stream", stdin=b"one\n")
    row = json.loads(done.stdout)
    assert row["seconds"] >= 0
    del row["seconds"]
    assert row == {"type": "end", "objects": 1, "dropped": 0, "bytes": 3, "datagrams": False}
    assert aqueduct(*where, "post/c", "-q", stdin=b"x").stderr == b""


def test_files_are_objects(origin: Listener, certificates: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "two")]
    files[0].write_bytes(b"1\n2\n")
    files[1].write_bytes(bytes(200_000))
    done = aqueduct(
        *("quicr", "post", origin.url, "post/files", *files, *trust(certificates)),
        *("--whole-file", "--group-size", "1"),
    )
    assert done.returncode == 0, done.stderr
    got = aqueduct(
        *("quicr", "get", origin.url, "post/files", *trust(certificates)), "--delimiter", ""
    )
    assert got.stdout == b"1\n2\n" + bytes(200_000)


@pytest.mark.parametrize("flags", ["0xff", "-1", "many"])
def test_flags_that_no_object_can_have(flags: str, origin: Listener, certificates: Path) -> None:
    done = aqueduct("quicr", "post", origin.url, "a", f"--flags={flags}", *trust(certificates))
    assert done.returncode == 2
    assert b"is not a number from 0 to 0xfe" in done.stderr


def test_what_no_media_can_carry(origin: Listener, certificates: Path, tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(MAX_OBJECT + 1)
    where = (origin.url, "post/large", large, *trust(certificates))
    done = aqueduct("quicr", "post", *where, "--whole-file")
    assert f"above {MAX_OBJECT}" in one_error(done, "AQUEDUCT_INVALID_OPTION.BAD_VALUE")
    for verb in ("post", "get", "watch"):
        done = aqueduct("quicr", verb, origin.url, "u" * 2_000, *trust(certificates), stdin=b"x")
        assert "2000 bytes, and 1024" in one_error(done, "AQUEDUCT_INVALID_OPTION.BAD_VALUE")


def test_a_file_that_is_not_there_is_told_before_anybody_is_dialled(certificates: Path) -> None:
    done = aqueduct("quicr", "post", "quicr://127.0.0.1:9", "a", "nowhere", *trust(certificates))
    assert "nowhere" in one_error(done, "AQUEDUCT_INVALID_OPTION.BAD_VALUE")
