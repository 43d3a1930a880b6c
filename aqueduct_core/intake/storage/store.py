"""What a group commit needs of the spool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from aqueduct_core.spool import ContentSum, SequenceMark, Sequences


class Store(Protocol):
    """As of `Spool`; see there."""

    @property
    def group(self) -> int: ...
    @property
    def full(self) -> bool: ...
    @property
    def sequences(self) -> Sequences: ...
    def append(
        self,
        partition: int,
        batch: pa.RecordBatch,
        marks: Sequence[SequenceMark] = (),
        sums: Sequence[ContentSum] = (),
    ) -> tuple[int, int]: ...
    def flush(self) -> bool: ...
    def ends(self) -> list[int]: ...
