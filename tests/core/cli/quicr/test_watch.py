"""``aqueduct quicr watch``: URLs as they appear."""

from __future__ import annotations

import json
from pathlib import Path

from tests.core.cli.quicr.running import trust
from tests.core.cli.running import Listener, aqueduct


def test_urls_are_printed_as_text(origin: Listener, certificates: Path) -> None:
    for url in ("watch/caf\u00e9", "watch/\\xff", "other"):
        done = aqueduct("quicr", "post", origin.url, url, *trust(certificates), stdin=b"x")
        assert done.returncode == 0, done.stderr
    where = ("quicr", "watch", origin.url, "watch/", *trust(certificates), "-c", "2")
    assert {*aqueduct(*where).stdout.decode().splitlines()} == {"watch/caf\u00e9", "watch/\\xff"}
    rows = [json.loads(line) for line in aqueduct(*where, "-J").stdout.splitlines()]
    assert sorted(row["url"] for row in rows) == ["watch/\\xff", "watch/caf\u00e9"]
    assert {row["type"] for row in rows} == {"media"}
