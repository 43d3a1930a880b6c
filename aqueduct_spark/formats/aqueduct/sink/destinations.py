"""Which channel each row goes to: found by columns, not row by row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from aqueduct_core.aqueduct.conventions.headers import MAX_NAME_BYTES
from aqueduct_core.errors import SchemaMismatch
from aqueduct_core.primitives.ranges import Numbers
from aqueduct_core.spool.arrays import numbers_in, text_scalar
from aqueduct_spark.write.batches import Destination

DEFAULT_CHANNEL = "spark"
"""The name of the channel of rows that name none."""

RELIABILITIES = ("ordered", "unordered", "unreliable")


def destinations(
    piece: pa.RecordBatch,
    channel: str | None,
    reliability: str,
    sources: tuple[Numbers, list[str]] | None = None,
) -> Iterator[tuple[Destination, Numbers | None]]:
    """Each destination with the numbers of its rows; None: all rows go there. ``sources``: the name
    of the source of each row, which counts for reliable ones.

    Raises:
        SchemaMismatch: COLUMN_TYPE for a name or a reliability that is none.
    """
    names = piece.schema.names
    everywhere = np.zeros(piece.num_rows, np.int64)
    channels, channel_names = everywhere, [channel or DEFAULT_CHANNEL]
    kinds, kind_names = everywhere, [reliability]
    if channel is None and "channel" in names:
        channels, channel_names = _encoded(piece.column("channel"), DEFAULT_CHANNEL)
    if "reliability" in names:
        kinds, kind_names = _encoded(piece.column("reliability"), reliability)
    _check_channels(channel_names)
    _check_reliabilities(kind_names)
    if sources is None and len(channel_names) == len(kind_names) == 1:
        yield Destination(channel_names[0], kind_names[0].lower()), None
        return
    combined = channels * len(kind_names) + kinds
    source_names = [""]
    if sources is not None:
        source_names += sources[1]
        lossy = np.array([word.lower() == "unreliable" for word in kind_names])
        combined = combined * len(source_names) + np.where(lossy[kinds], 0, sources[0] + 1)
    order = np.argsort(combined, kind="stable")
    found, firsts = np.unique(combined[order], return_index=True)
    for key, rows in zip(found.tolist(), np.split(order, firsts[1:]), strict=True):
        key, source = divmod(key, len(source_names))
        destination = Destination(
            channel_names[key // len(kind_names)],
            kind_names[key % len(kind_names)].lower(),
            source_names[source],
        )
        yield destination, None if len(found) == 1 else rows


def _encoded(column: pa.Array, default: str) -> tuple[Numbers, list[str]]:
    encoded = column.fill_null(text_scalar(default)).dictionary_encode()
    return numbers_in(encoded.indices).astype(np.int64), encoded.dictionary.to_pylist()


def _check_channels(names: list[str]) -> None:
    for name in names:
        if not 0 < len(name.encode()) <= MAX_NAME_BYTES or "\0" in name:
            raise SchemaMismatch(
                "COLUMN_TYPE",
                f"Column 'channel' holds a name of {len(name.encode())} bytes; a name has 1 to "
                f"{MAX_NAME_BYTES}, and none of them is NUL",
                "Correct the column, or set option 'channel'",
            )


def _check_reliabilities(words: list[str]) -> None:
    for word in words:
        if word.lower() not in RELIABILITIES:
            raise SchemaMismatch(
                "COLUMN_TYPE",
                f"Column 'reliability' holds '{word[:40]}'; it must be one of "
                + ", ".join(RELIABILITIES),
                "Correct the column, or leave it out and set option 'reliability'",
            )
