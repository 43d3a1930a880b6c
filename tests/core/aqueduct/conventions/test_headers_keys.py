"""Header keys of any bytes, as text and back."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aqueduct_core.aqueduct.conventions.headers import key_from_text, key_to_text

PARTS = st.sampled_from([b"\\", b"\\x", b"\\xff", b"\\x5c", b"\\xc3\\xa9", b"\xff", b"\xc3", b"a9"])
KEYS = st.lists(PARTS | st.binary(max_size=2) | st.text(max_size=2).map(str.encode)).map(b"".join)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"", ""),
        ("é\\xff".encode(), "é\\xff"),
        (b"\xff", "\\xff"),
        (b"\xff\\", "\\xff\\x5c"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
    ],
)
def test_as_text(key: bytes, text: str) -> None:
    assert key_to_text(key) == text


@given(KEYS)
@example(b"\\xc3\\xa9" + b"\xff" * 100)
def test_what_is_sent_on_looks_the_same_and_is_no_longer(key: bytes) -> None:
    again = key_from_text(key_to_text(key))
    assert key_to_text(again) == key_to_text(key)
    assert len(again) <= len(key)
    try:
        key.decode()
    except UnicodeDecodeError:
        assert again == key


@given(st.text())
@example("\\xff\\")
@example("\\xc3\\xa9")
def test_any_text_is_a_key(text: str) -> None:
    assert key_to_text(key_from_text(text)) == text
