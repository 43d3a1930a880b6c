"""Arrays made without ``pyarrow.array`` are those that it would make."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from aqueduct_core.spool.arrays import (
    binary_array,
    mask_array,
    numbers_in,
    numeric_array,
    text_array,
    text_scalar,
)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float64])
@pytest.mark.parametrize("count", [0, 1, 9])
def test_numbers(kind: type, count: int) -> None:
    values = np.arange(count, dtype=kind)
    array = numeric_array(values)
    array.validate(full=True)
    assert array.equals(pa.array(values))


def test_numbers_that_lie_apart() -> None:
    values = np.arange(10, dtype=np.int64)[::2]
    assert numeric_array(values).to_pylist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("values", [[], [b""], [b"x", b"", b"yz" * 99]])
def test_bytes(values: list[bytes]) -> None:
    array = binary_array(values)
    array.validate(full=True)
    assert array.equals(pa.array(values, pa.large_binary()))


@pytest.mark.parametrize("kind", ["int32", "int64", "uint32", "double"])
@pytest.mark.parametrize("values", [[], [3], [1, None, 2, None] * 5, [None]])
def test_numbers_of_an_array(kind: str, values: list[int | None]) -> None:
    array = pa.array(values, kind)
    for first in range(len(values) + 1):
        found = numbers_in(array.slice(first))
        assert found.tolist() == [value or 0 for value in values[first:]]
        assert found.dtype == array.type.to_pandas_dtype()


@pytest.mark.parametrize("values", [[], [True], [True, False, True] * 7])
def test_truth_values(values: list[bool]) -> None:
    for given in (values, np.array(values, np.bool_)):
        array = mask_array(given)
        array.validate(full=True)
        assert array.equals(pa.array(values, pa.bool_()))


@pytest.mark.parametrize(
    "values", [[], ["one"], ["", "zwölf", None, "日本"], [None] * 9, ["x"] * 9 + [None]]
)
def test_texts(values: list[str | None]) -> None:
    array = text_array(values)
    array.validate(full=True)
    assert array.equals(pa.array(values, pa.string()))


def test_a_text_that_is_none() -> None:
    with pytest.raises(UnicodeEncodeError):
        text_array(["\ud800"])


def test_one_text() -> None:
    assert text_scalar("x").equals(pa.scalar("x"))


def test_none_of_them_imports_pandas() -> None:
    code = (
        "import sys, numpy\n"
        "from aqueduct_core.spool.arrays import mask_array, numeric_array, text_array\n"
        "numeric_array(numpy.arange(3)), mask_array([True]), text_array(['x', None])\n"
        "sys.exit('pandas' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
