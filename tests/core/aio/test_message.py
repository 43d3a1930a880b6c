"""Messages in batches, and headers as an application writes them."""

from __future__ import annotations

import pytest

from aqueduct_core.aio.message import as_headers, batch_of, rest_of


def test_headers_are_written_as_a_mapping_or_as_pairs() -> None:
    assert as_headers({"a": "1", "b": b"\xff"}) == ((b"a", b"1"), (b"b", b"\xff"))
    assert as_headers([("a", "1"), (b"a", "2")]) == ((b"a", b"1"), (b"a", b"2"))
    assert as_headers(()) == ()


@pytest.mark.parametrize("key", ["", "ä", b"\xff"])
def test_header_keys_are_ascii_and_not_empty(key: str | bytes) -> None:
    with pytest.raises(ValueError, match="ASCII"):
        as_headers([(key, "v")])


def test_header_values_are_text_or_bytes() -> None:
    with pytest.raises(TypeError, match="int"):
        as_headers({"a": 1})  # type: ignore[dict-item]


@pytest.mark.parametrize("headers", [["a"], [("a", "b", "c")], "a=b", ["ab"]])
def test_headers_that_are_no_pairs_are_named(headers: object) -> None:
    with pytest.raises(TypeError, match="pairs of key and value"):
        as_headers(headers)  # type: ignore[arg-type]


def test_the_rest_of_a_batch_keeps_numbers_payloads_and_headers() -> None:
    batch = batch_of([b"a", b"", b"ccc"], 7, True, 60, {0: ((b"k", b"0"),), 2: ((b"k", b"2"),)})
    rest = rest_of(batch, 1, 40)
    got = [(m.number, m.payload, m.headers) for m in rest.messages()]
    assert got == [(8, b"", ()), (9, b"ccc", ((b"k", b"2"),))]
    assert rest.size == 40
