"""The checksum of numbered messages: as it is written down, and the same however they come."""

from __future__ import annotations

import random
import re
from itertools import pairwise
from zlib import crc32

import pytest

from aqueduct_core.engine.checksum import (
    COPY_BYTES,
    SINGLY,
    BatchPart,
    Content,
    of_batches,
    of_payloads,
)
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.engine.message_batch import Headers
from tests.core.intake.runs import run
from tests.support.repository import ROOT

PAGE = ROOT / "docs" / "protocol.md"


def as_written(number: int, payload: bytes, headers: Headers = ()) -> int:
    """``docs/protocol.md``, word for word."""
    crc = crc32(payload)
    if headers:
        data = b"".join(
            bytes([len(key)]) + key + bytes([len(value)]) + value for key, value in headers
        )
        crc = crc32(bytes([len(data)]) + data, crc)
    modulus = 1 << 64
    x = (number * 0x9E3779B97F4A7C15 + (len(payload) << 32 | crc)) % modulus
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % modulus
    x = (x ^ x >> 27) * 0x94D049BB133111EB % modulus
    return x ^ x >> 31


def test_it_is_what_is_written_down() -> None:
    pair: Headers = ((b"k", b"v"), (b"k", b""))
    numbers = (0, 1, 1 << 31, (1 << 62) - 1)
    for number in numbers:
        for payload in (b"", b"x", bytes(range(256))):
            assert of_payloads([payload], number) == (1, as_written(number, payload))
            mixed = of_payloads([payload], number, HeaderColumn.of([pair]))
            assert mixed.total == as_written(number, payload, pair) != as_written(number, payload)


@pytest.mark.parametrize("count", [1, 2, SINGLY, SINGLY + 1])
def test_few_messages_and_many_are_mixed_alike(count: int) -> None:
    chance = random.Random(count)
    payloads = [chance.randbytes(chance.randrange(3_000)) for _ in range(count)]
    messages = run(payloads, headers={count - 1: ((b"k", b"v"),)})
    first = (1 << 62) - count
    written = [
        as_written(first + i, payload, messages.headers.get(i, ()))
        for i, payload in enumerate(payloads)
    ]
    contents, checks = of_batches([BatchPart(messages, 0, count, first)])
    assert contents == [(count, sum(written) % (1 << 64))]
    assert len(checks) == count
    ends = {0, 1, count}
    parts = [BatchPart(messages, low, high, first + low) for low, high in pairwise(sorted(ends))]
    contents, again = of_batches(parts)
    assert [content.total for content in contents] == [
        sum(written[part.low : part.high]) % (1 << 64) for part in parts
    ]
    assert again.tolist() == checks.tolist()


def test_the_example_of_the_protocol_page() -> None:
    text = PAGE.read_text("utf-8")
    (first, second, both) = re.findall(r"checksum `([0-9a-f]{16})`", text)
    headers = HeaderColumn.of([((b"t", b"1"),)])
    red, blue = of_payloads([b"red"], 7), of_payloads([b"blue"], 8, headers)
    assert (f"{red.total:016x}", f"{blue.total:016x}") == (first, second)
    assert f"{red.plus(blue).total:016x}" == both


@pytest.mark.parametrize("size", [20, 2 * COPY_BYTES])
def test_any_cut_and_any_order_give_the_same(size: int) -> None:
    chance = random.Random(size)
    payloads = [chance.randbytes(chance.randrange(size)) for _ in range(50)]
    headers: dict[int, Headers] = {3: ((b"a", b"b"),), 49: ((b"c", b""),)}
    column = HeaderColumn.of(headers.get(index, ()) for index in range(50))
    whole = of_payloads(payloads, 1000, column)
    messages = run(payloads, headers=headers)
    assert of_batches([BatchPart(messages, 0, 50, 1000)])[0] == [whole]
    for _ in range(20):
        cuts = sorted({0, 50, *(chance.randrange(50) for _ in range(5))})
        pieces = list(pairwise(cuts))
        chance.shuffle(pieces)
        parts = [BatchPart(messages, low, high, 1000 + low) for low, high in pieces]
        total = Content()
        for content in of_batches(parts)[0]:
            total = total.plus(content)
        assert total == whole


def test_other_content_has_another_checksum() -> None:
    payloads = [b"%d" % number for number in range(200)]
    seen = {of_payloads(payloads, 0)}
    for at in range(199):
        swapped = [*payloads]
        swapped[at], swapped[at + 1] = payloads[at + 1], payloads[at]
        seen.add(of_payloads(swapped, 0))
        seen.add(of_payloads([*payloads[:at], payloads[at] + b"x", *payloads[at + 1 :]], 0))
    seen.add(of_payloads(payloads, 1))
    # bytes that move from the payload into the headers
    seen.add(of_payloads([b"ab"], 0))
    seen.add(of_payloads([b""], 0, HeaderColumn.of([((b"a", b"b"),)])))
    assert len(seen) == 1 + 2 * 199 + 3


def test_of_nothing() -> None:
    assert of_payloads([], 5) == Content() == (0, 0)
