"""JSON objects as columns of given types: strict, row by row, each within its limits."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from aqueduct_spark.read.payloads.columns import column

MAX_VALUES = 1_000_000
"""Values in one object, about: bounds what a payload of brackets makes of its bytes."""

_NOT_FINITE = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}

FromJson = Callable[[Any], Any]


class _Unfit(ValueError):
    """A value is not what the schema says. The text names no bytes of the payload."""


class JsonPayloads:
    """Decodes payloads into the columns of a schema.

    A payload is malformed when it is no JSON object in UTF-8, or a field has a value that its type
    does not hold. A field that is missing is null; one that the schema does not know is ignored.
    """

    def __init__(self, columns: pa.Schema) -> None:
        self._fields = [(field, _converter(field.type, field.name)) for field in columns]
        exact = any(_holds_decimal(field.type) for field in columns)
        self._decoder = json.JSONDecoder(
            parse_float=Decimal if exact else None, parse_constant=_refuse_constant
        )

    def decode(self, values: pa.Array) -> tuple[dict[str, pa.Array], dict[int, str]]:
        """The columns, null where a payload is malformed, and why it is, by its place."""
        found: list[list[Any]] = [[] for _ in self._fields]
        reasons: dict[int, str] = {}
        for row, payload in enumerate(values.to_pylist()):
            try:
                cells = self._row(payload)
            except _Unfit as error:
                reasons[row] = str(error)
                cells = [None] * len(self._fields)
            for held, cell in zip(found, cells, strict=True):
                held.append(cell)
        return {
            field.name: column(cells, field.type)
            for (field, _), cells in zip(self._fields, found, strict=True)
        }, reasons

    def _row(self, payload: bytes) -> list[Any]:
        if payload.count(b",") + payload.count(b"[") + payload.count(b"{") > MAX_VALUES:
            raise _Unfit(f"it has over {MAX_VALUES} values")
        try:
            value = self._decoder.decode(payload.decode())
        except UnicodeDecodeError as error:
            raise _Unfit(f"not UTF-8 at byte {error.start}") from None
        except json.JSONDecodeError as error:
            raise _Unfit(f"not JSON at character {error.pos}") from None
        except RecursionError:
            raise _Unfit("it is nested too deeply") from None
        except (ValueError, InvalidOperation):
            raise _Unfit("it holds a number that is none, or too long") from None
        if not isinstance(value, dict):
            raise _Unfit("it is not an object")
        return [convert(value.get(field.name)) for field, convert in self._fields]


def _refuse_constant(word: str) -> Any:
    raise ValueError(word)


def _holds_decimal(kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return True
    return any(_holds_decimal(kind.field(i).type) for i in range(kind.num_fields))


def _converter(kind: pa.DataType, name: str) -> FromJson:
    """From a value of JSON to one that a column of this type takes. Raises: _Unfit."""
    plain = _plain(kind, name)

    def convert(value: Any) -> Any:
        if value is None:
            return None
        try:
            return plain(value)
        except _Unfit:
            raise
        except (ValueError, TypeError, OverflowError, ArithmeticError, binascii.Error):
            raise _Unfit(f"field '{name}' does not hold {kind}") from None

    return convert


def _plain(kind: pa.DataType, name: str) -> FromJson:
    if pa.types.is_struct(kind):
        fields = [(field.name, _converter(field.type, f"{name}.{field.name}")) for field in kind]
        return lambda value: {key: item(_of(value, dict).get(key)) for key, item in fields}
    if pa.types.is_map(kind):
        held = _converter(kind.item_type, f"{name}.*")
        return lambda value: [(_text(key), held(item)) for key, item in _of(value, dict).items()]
    if pa.types.is_list(kind):
        element = _converter(kind.value_type, f"{name}[]")
        return lambda value: [element(item) for item in _of(value, list)]
    if pa.types.is_boolean(kind):
        return lambda value: _of(value, bool)
    if pa.types.is_integer(kind):
        low, high = -(1 << kind.bit_width - 1), (1 << kind.bit_width - 1) - 1
        return lambda value: _integer(value, low, high)
    if pa.types.is_floating(kind):
        return _float
    if pa.types.is_decimal(kind):
        return lambda value: _decimal(value, kind.precision, kind.scale)
    if pa.types.is_date(kind):
        return lambda value: date.fromisoformat(_of(value, str))
    if pa.types.is_timestamp(kind):
        return lambda value: _moment(_of(value, str), zoned=kind.tz is not None)
    if pa.types.is_binary(kind):
        return lambda value: base64.b64decode(_of(value, str), validate=True)
    return lambda value: _text(_of(value, str))


def _of(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _text(value: str) -> str:
    value.encode()  # a lone surrogate is no text
    return value


def _integer(value: Any, low: int, high: int) -> int:
    number: int = _of(value, int)
    if not low <= number <= high:
        raise OverflowError
    return number


def _float(value: Any) -> float:
    if isinstance(value, str):
        return float(_NOT_FINITE[value] if value in _NOT_FINITE else _of(value, float))
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TypeError
    return float(value)


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise TypeError
    number = Decimal(value)
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or -exponent > scale:
        raise ValueError
    if len(digits) + exponent > precision - scale and number:
        raise OverflowError
    return number


def _moment(value: str, *, zoned: bool) -> datetime:
    moment = datetime.fromisoformat(value)
    if zoned:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment.tzinfo is not None:
        raise ValueError
    return moment
