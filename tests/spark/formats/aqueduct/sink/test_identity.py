"""How rows say who they are."""

from __future__ import annotations

from dataclasses import replace
from itertools import repeat

from aqueduct_core.aqueduct.conventions.headers import SOURCE_OFFSET
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.engine.message_batch import Headers
from aqueduct_spark.formats.aqueduct.sink.identity import SPARSE, RowIdentity
from aqueduct_spark.write.batches import Destination, RowBatch
from tests.spark.formats.aqueduct.sink.test_sources import batch, split


def said(portion: RowBatch, keyed: bool = False) -> list[list[int]]:
    """What each message says of its place."""
    found: list[list[int]] = []
    for headers, payloads in RowIdentity("w", 0, 0).messages(portion, keyed):
        each = repeat((), len(payloads)) if headers is None else headers
        found += [[int(value) for _, value in pairs] for pairs in each]
    assert len(found) == len(portion.payloads)
    return found


def test_a_message_says_its_place_where_it_is_not_the_next() -> None:
    [portion] = split(batch([0, 6, 12, 30, 36], channels=1))
    assert said(portion) == [[0], [], [], [5], []]
    assert said(portion.part(2, 5)) == [[2], [5], []]
    assert said(portion.part(4, 5)) == [[6]]
    assert said(portion.part(0, 2), keyed=True) == [[0], [1]]
    [portion] = split(batch([0, 6], channels=1, reliability="unordered"))
    assert said(portion) == [[0], [1]]


def test_a_header_of_a_row_is_not_taken_for_its_place() -> None:
    [portion] = split(batch([0, 6], channels=1))
    own = HeaderColumn.of([((b"k", b"1"),), ((SOURCE_OFFSET, b"7"),)])
    column = RowIdentity("w", 0, 0).headers(replace(portion, headers=own), keyed=False)
    assert column is not None
    assert list(column) == [
        ((SOURCE_OFFSET, b"0"), (b"k", b"1")),
        ((SOURCE_OFFSET, b"1"), (SOURCE_OFFSET, b"7")),
    ]


def test_keys_come_before_the_headers_of_a_row() -> None:
    portion = RowBatch(
        Destination("c", "ordered"),
        [b"x", b"y"],
        range(7, 9),
        HeaderColumn.of([(), ((b"k", b""),)]),
    )
    [(column, payloads)] = RowIdentity("w", 3, 0).messages(portion, keyed=True)
    assert payloads == [b"x", b"y"]
    assert column is not None
    assert list(column) == [
        ((b"batch", b"3"), (b"row", b"7")),
        ((b"batch", b"3"), (b"row", b"8"), (b"k", b"")),
    ]
    [(column, payloads)] = RowIdentity("w", 3, 0).messages(replace(portion, headers=None), False)
    assert (column, payloads) == (None, [b"x", b"y"])


def test_plain_messages_go_apart_from_few_with_headers() -> None:
    """They are cheaper by themselves, and nothing is lost or out of order between them."""
    count = 4 * SPARSE
    payloads = [b"%d" % row for row in range(count)]
    for saying in ([0], [count - 1], [5, 6], [0, 20, 21]):
        pairs = [((b"k", b"v"),) if row in saying else () for row in range(count)]
        portion = RowBatch(
            Destination("c", "ordered"), payloads, range(count), HeaderColumn.of(pairs)
        )
        runs = list(RowIdentity("w", 0, 0).messages(portion, keyed=False))
        assert [payload for _, run in runs for payload in run] == payloads
        found: list[Headers] = []
        for headers, run in runs:
            found += repeat((), len(run)) if headers is None else headers
            assert headers is None or all(headers)
        assert found == pairs
