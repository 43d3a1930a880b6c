"""The messages of a receipts channel: their form, and what breaks it."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.conventions.headers import BadHeader
from aqueduct_core.aqueduct.conventions.receipts import (
    BadReceipt,
    CommittedMessages,
    from_payload,
    receipts_header,
    to_payload,
    wants_receipts,
)


def test_the_payload_is_what_the_protocol_page_says() -> None:
    entries = [
        CommittedMessages("réadings", True, ((0, 500), (502, 2**62))),
        CommittedMessages("0/8", False, ((7, 8),), 8),
    ]
    payload = to_payload(entries)
    assert (
        payload
        == (
            '{"v":1,"committed":[{"channel":"réadings","reliable":true,"ranges":'
            "[[0,500],[502,4611686018427387904]]},"
            '{"channel":"0/8","reliable":false,"id":8,"ranges":[[7,8]]}]}'
        ).encode()
    )
    assert from_payload(payload) == entries
    assert from_payload(to_payload(())) == []
    later = b'{"v":1,"later":1,"committed":[{"channel":"c","reliable":true,"ranges":[],"later":2}]}'
    assert from_payload(later) == [CommittedMessages("c", True, ())]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b"[]",
        b'{"v":1}',
        b'{"v":2,"committed":[]}',
        b'{"v":1,"committed":[1]}',
        b'{"v":1,"committed":[{"channel":1,"reliable":true,"ranges":[]}]}',
        b'{"v":1,"committed":[{"channel":"c","reliable":1,"ranges":[]}]}',
        b'{"v":1,"committed":[{"channel":"c","reliable":true,"ranges":1}]}',
        b'{"v":1,"committed":[{"channel":"c","reliable":true,"ranges":[[0]]}]}',
        b'{"v":1,"committed":[{"channel":"c","reliable":true,"ranges":[[1,1]]}]}',
        b'{"v":1,"committed":[{"channel":"c","reliable":true,"ranges":[[-1,1]]}]}',
        b'{"v":1,"committed":[{"channel":"c","reliable":true,"ranges":[[0,true]]}]}',
        b'{"v":1,"committed":[{"channel":"c","reliable":true,"ranges":[[0,1.5]]}]}',
        b'{"v":1,"committed":[{"channel":"c","reliable":true,"ranges":[[0,1e30]]}]}',
        b'{"v":1,"committed":[{"channel":"c","reliable":true,"id":"x","ranges":[]}]}',
    ],
)
def test_payloads_that_break_their_form_are_refused(payload: bytes) -> None:
    with pytest.raises(BadReceipt):
        from_payload(payload)


def test_who_wants_receipts() -> None:
    assert wants_receipts((receipts_header(),))
    assert wants_receipts(((b"receipts", b""),))
    assert wants_receipts(((b"receipts", b"7"),))
    assert not wants_receipts(((b"name", b"receipts"),))
    for value in (b"0", b"yes", b"-1"):
        with pytest.raises(BadHeader):
            wants_receipts(((b"receipts", value),))
    with pytest.raises(BadHeader):
        wants_receipts((receipts_header(), receipts_header()))
