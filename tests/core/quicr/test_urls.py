"""Each URL has one text, and each text one URL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.quicr.urls import url_bytes, url_text


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (b"cam/1", "cam/1"),
        ("é€".encode(), "é€"),
        (b"", ""),
        (b"a\\b", "a\\\\b"),
        (b"\xff\\xff", "\\xff\\\\xff"),
        (b"a\0\n\x7f", "a\\x00\\x0a\\x7f"),
    ],
)
def test_urls_as_text(url: bytes, text: str) -> None:
    assert url_text(url) == text
    assert url_bytes(text) == url


@given(st.binary(max_size=40))
def test_a_text_is_of_one_url(url: bytes) -> None:
    assert url_bytes(url_text(url)) == url
    url_text(url).encode()


def test_a_byte_may_be_written_so_in_any_case() -> None:
    assert url_bytes("a\\x2Cb\\x2cc") == b"a,b,c"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("a\\b", "a backslash is written twice"),
        ("a\\", "a backslash is written twice"),
        ("a\\x1", "a byte as"),
        ("a\0", "without control characters"),
        ("a\ud800", "UTF-8"),
    ],
)
def test_what_is_no_url_is_refused(text: str, allowed: str) -> None:
    with pytest.raises(ValueError, match=allowed):
        url_bytes(text)
