"""Column ``headers`` of a frame as the header data of messages: by columns, not row by row."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct_core.aqueduct.conventions.headers import key_from_text
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.errors import SchemaMismatch
from aqueduct_core.primitives import varint
from aqueduct_core.primitives.cursor import encode_varbytes
from aqueduct_core.spool.arrays import numbers_in


def row_headers(piece: pa.RecordBatch) -> HeaderColumn | None:
    """The headers of each row; None where no row has any.

    Null lists and null pairs are none, a null value is an empty one. Keys are any text, and go as
    they are: the source shows whatever a peer sent.

    Raises:
        SchemaMismatch: REQUIRED for a key that is null.
    """
    if "headers" not in piece.schema.names:
        return None
    column = piece.column("headers")
    pairs = pc.list_flatten(column)
    present = pairs.is_valid()
    # Not list_parent_indices, which counts what lies below a list that is null.
    lengths = numbers_in(pc.list_value_length(column))
    rows = np.repeat(np.arange(len(column)), lengths)[numbers_in(present.cast(pa.uint8())) > 0]
    if not len(rows):
        return None
    pairs = pairs.filter(present)
    keys = pc.struct_field(pairs, "key").dictionary_encode()
    if keys.null_count:
        raise SchemaMismatch(
            "REQUIRED", "Column 'headers' holds a key that is null", "Filter such headers"
        )
    names = [key_from_text(name) for name in keys.dictionary.to_pylist()]
    heads = list(map(encode_varbytes, names))
    values = pc.struct_field(pairs, "value").to_pylist()
    encode = varint.encode
    encoded = [
        heads[code] + encode(len(value)) + value if value else heads[code] + b"\x00"
        for code, value in zip(keys.indices.to_pylist(), values, strict=True)
    ]
    counts = np.bincount(rows, minlength=piece.num_rows)
    ends = [0, *np.cumsum(counts).tolist()]
    contents = [b"".join(encoded[first:stop]) for first, stop in pairwise(ends)]
    return HeaderColumn(contents, frozenset(names), int(counts.max()), received=True)
