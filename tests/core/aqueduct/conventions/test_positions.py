"""The answer to where a channel stands: its form, and what breaks it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aqueduct_core.aqueduct.conventions.positions import (
    MAX_RANGES,
    BadPosition,
    ChannelPosition,
    from_payload,
    to_payload,
)

SOME = ChannelPosition("größe", 2**62, 3, True, ((0, 2), (3, 2**62)))


@pytest.mark.parametrize("position", [SOME, ChannelPosition("c", 0, None, False, ())])
def test_what_is_written_is_read(position: ChannelPosition) -> None:
    assert from_payload(to_payload(position)) == position


def test_the_lowest_of_too_many_ranges_are_left_out() -> None:
    ranges = tuple((n, n + 1) for n in range(0, 4 * MAX_RANGES, 2))
    position = from_payload(to_payload(ChannelPosition("c", 4 * MAX_RANGES, 0, False, ranges)))
    assert position.stored == ranges[-MAX_RANGES:]
    assert (
        len(to_payload(position._replace(channel="x" * 256, stored=((2**61, 2**62),) * 64))) < 4096
    )


def test_the_payload_is_what_the_protocol_page_says() -> None:
    assert (
        to_payload(ChannelPosition("größe", 510, 400, False, ((0, 502), (504, 510))))
        == (
            '{"v":1,"channel":"größe","next":510,"begun":400,"finished":false,'
            '"stored":[[0,502],[504,510]]}'
        ).encode()
    )


def test_whether_nothing_is_stored_below_a_number() -> None:
    assert ChannelPosition("c", 0, None, False, ()).all_from(0)
    position = ChannelPosition("c", 9, 3, True, ((3, 5), (7, 9)))
    assert [number for number in range(9) if position.all_from(number)] == [0, 1, 2, 3]
    # of as many as an answer holds the lowest may have been left out
    full = position._replace(stored=tuple((3 * n, 3 * n + 1) for n in range(MAX_RANGES)))
    assert not full.all_from(0)
    assert full._replace(stored=full.stored[1:]).all_from(0)


def test_keys_that_are_not_known_are_ignored() -> None:
    value = json.loads(to_payload(SOME)) | {"more": []}
    assert from_payload(json.dumps(value).encode()) == SOME


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"v": None},
        {"channel": 1},
        {"next": -1},
        {"next": 2**62 + 1},
        {"next": 1.0},
        {"next": True},
        {"begun": "3"},
        {"finished": 1},
        {"stored": None},
        {"stored": [[1]]},
        {"stored": [[2, 2]]},
        {"stored": [[0, 2**63]]},
        {"stored": [3]},
    ],
)
def test_other_forms_are_refused(change: dict[str, Any]) -> None:
    value = json.loads(to_payload(SOME)) | change
    with pytest.raises(BadPosition):
        from_payload(json.dumps(value).encode())


@pytest.mark.parametrize("payload", [b"", b"[]", b"[" * 100_000, b"\xff", b"0"])
def test_what_is_no_object_is_refused(payload: bytes) -> None:
    with pytest.raises(BadPosition):
        from_payload(payload)
