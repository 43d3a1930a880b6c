"""What a group commit needs of the spool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from aqueduct_core.primitives.number_set import NumberSet
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.spool import ContentSum, Mark


class Store(Protocol):
    """As of `Spool`; see there."""

    @property
    def group(self) -> int: ...
    @property
    def full(self) -> bool: ...
    def append(
        self,
        partition: int,
        batch: pa.RecordBatch,
        marks: Sequence[Mark] = (),
        sums: Sequence[ContentSum] = (),
    ) -> tuple[int, int]: ...
    def flush(self) -> bool: ...
    def seen(self, producer: str, channel: str) -> RangeSet: ...
    def rows(self, producer: str, channel: str) -> NumberSet: ...
    def seen_of(self, producer: str) -> Iterable[tuple[str, RangeSet]]: ...
    def content(self, producer: str, channel: str, first: int, stop: int) -> ContentSum: ...
    def floor(self, producer: str, channel: str) -> int: ...
    def ends(self) -> list[int]: ...
