"""``aqueduct quicr get``: objects as bytes and as JSON lines, gaps and ends."""

from __future__ import annotations

import json
from pathlib import Path

from tests.core.cli.quicr.running import serving, trust
from tests.core.cli.running import Listener, aqueduct, one_error

LINES = [b"one", b"two", b"three", b"four", b"f\xc3\xbcnf", b"\xff"]


def post(origin: Listener, certificates: Path, url: str, *options: str) -> None:
    done = aqueduct(
        *("quicr", "post", origin.url, url, *trust(certificates), *options),
        stdin=b"\n".join(LINES),
    )
    assert done.returncode == 0, done.stderr


def test_objects_are_printed_as_they_are(origin: Listener, certificates: Path) -> None:
    post(origin, certificates, "get/bytes", "--group-size", "2")
    for mode in ((), ("--datagrams",), ("--order", "arrival")):
        done = aqueduct("quicr", "get", origin.url, "get/bytes", *trust(certificates), *mode)
        assert (done.returncode, done.stdout) == (0, b"\n".join([*LINES, b""])), done.stderr
        assert done.stderr == b"# end at (2, 2): 6 objects, 0 of them dropped\n"
    done = aqueduct(
        *("quicr", "get", origin.url, "get/bytes", *trust(certificates)),
        *("--delimiter", r"\0", "-q", "-c", "2"),
    )
    assert (done.stdout, done.stderr) == (b"one\0two\0", b"")


def test_an_object_that_can_be_posted_can_be_had(
    origin: Listener, certificates: Path, tmp_path: Path
) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"x" * (17 << 20))
    own = trust(certificates)
    done = aqueduct("quicr", "post", origin.url, "get/large", large, "--whole-file", *own)
    assert done.returncode == 0, done.stderr
    done = aqueduct("quicr", "get", origin.url, "get/large", "--delimiter", "", *own)
    assert done.returncode == 0, done.stderr
    assert done.stdout == large.read_bytes()


def test_json_lines_say_where_objects_stand(origin: Listener, certificates: Path) -> None:
    post(origin, certificates, "get/json", "--group-size", "4", "--flags", "0x81")
    done = aqueduct("quicr", "get", origin.url, "get/json", *trust(certificates), "-J")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["group"], row["object"]) for row in rows[:-1]] == [
        *((0, number) for number in range(4)),
        *((1, number) for number in range(2)),
    ]
    assert {(row["type"], row["flags"], row["hole"]) for row in rows[:-1]} == {
        ("object", 0x81, False)
    }
    assert [row["value"] for row in rows[-3:-1]] == ["fünf", {"base64": "/w=="}]
    assert rows[-1] == {
        "type": "end",
        "final": [1, 2],
        "sure": True,
        "objects": 6,
        "holes": 0,
    }


def test_what_has_gone_before_is_told_and_no_failure(certificates: Path) -> None:
    lines = b"\n".join(b"%d " % number + bytes(200_000) for number in range(60))
    with serving(certificates, "origin", "--memory", "8m") as origin:
        where = (origin.url, "m", *trust(certificates))
        assert aqueduct("quicr", "post", *where, stdin=lines).returncode == 0
        done = aqueduct("quicr", "get", *where, "-J")
    assert done.returncode == 0, done.stderr
    first, *rest = [json.loads(line) for line in done.stdout.splitlines()]
    assert (first["type"], first["reason"], first["start"]) == ("gap", "start", [0, 0])
    assert rest[0]["object"] == first["stop"][1] > 0
    assert (rest[-1]["type"], rest[-1]["final"]) == ("end", [0, 60])
    assert (rest[-1]["objects"], rest[-1]["holes"]) == (len(rest) - 1, 0)


def test_what_nobody_posts_is_waited_for(origin: Listener, certificates: Path) -> None:
    done = aqueduct(
        *("quicr", "get", origin.url, "get/nobody", *trust(certificates), "--timeout", "300ms")
    )
    assert "'get/nobody'" in one_error(done, "AQUEDUCT_CHANNEL.NO_REPLY")


def test_mistakes_are_told_by_name(origin: Listener, certificates: Path) -> None:
    other = origin.url.replace("quicr", "aqueduct")
    for words, name, text in (
        ((other, "a"), "AQUEDUCT_INVALID_OPTION.BAD_VALUE", "does not start with quicr://"),
        ((origin.url, "a\\b"), "AQUEDUCT_INVALID_OPTION.BAD_VALUE", "backslash is written twice"),
        (("quicr://127.0.0.1:9", "a"), "AQUEDUCT_CONNECT.REFUSED", "127.0.0.1"),
    ):
        done = aqueduct("quicr", "get", *words, *trust(certificates))
        assert text in one_error(done, name)
