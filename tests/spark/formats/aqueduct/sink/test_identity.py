"""How rows say who they are."""

from __future__ import annotations

from aqueduct_spark.formats.aqueduct.sink.identity import RowIdentity
from aqueduct_spark.write.batches import RowBatch
from tests.spark.formats.aqueduct.sink.test_sources import batch, split


def said(portion: RowBatch, keyed: bool = False) -> list[tuple[list[int], int]]:
    """What messages say of their place, and how many payloads go together."""
    identity = RowIdentity("w", 0, 0)
    return [
        ([int(value) for _, value in headers], len(payloads))
        for headers, payloads in identity.messages(portion, keyed)
    ]


def test_a_message_says_its_place_where_it_is_not_the_next() -> None:
    [portion] = split(batch([0, 6, 12, 30, 36], channels=1))
    assert said(portion) == [([0], 1), ([], 2), ([5], 1), ([], 1)]
    assert said(portion.part(2, 5)) == [([2], 1), ([5], 1), ([], 1)]
    assert said(portion.part(4, 5)) == [([6], 1)]
    assert said(portion.part(0, 2), keyed=True) == [([0], 1), ([1], 1)]
    [portion] = split(batch([0, 6], channels=1, reliability="unordered"))
    assert said(portion) == [([0], 1), ([1], 1)]
