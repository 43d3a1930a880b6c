"""What a peer wrote is shown in one line, without anything that a terminal obeys."""

from __future__ import annotations

import pickle
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.errors import LONGEST_SENTENCE, ConnectFailed
from aqueduct_core.escape import LONGEST, escaped

ANY = st.text(st.characters(codec=None), max_size=300)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("größe 東京 🚰", "größe 東京 🚰"),
        ("a\nb\r\tc\0", r"a\nb\r\tc\x00"),
        ("\x1b[2J\x9b31m\x7f", r"\x1b[2J\x9b31m\x7f"),
        ("\u202eevil\u2066\u200f", r"\u202eevil\u2066\u200f"),
        ("line\u2028par\u2029nel\x85", r"line\u2028par\u2029nel\x85"),
        ("half \ud800 \udfff", r"half \ud800 \udfff"),
        ("tag \U000e0041", r"tag \U000e0041"),
        ("a\\nb", r"a\nb"),
        (b"raw \xff\xc3\xbc\n", r"raw \xffü\n"),
    ],
)
def test_what_is_not_printable_is_told_as_an_escape(text: str | bytes, shown: str) -> None:
    assert escaped(text) == shown


@given(ANY, st.integers(2, 400))
def test_it_is_one_line_of_printable_characters(text: str, limit: int) -> None:
    shown = escaped(text, limit)
    assert len(shown) <= limit
    assert shown.isprintable()
    assert not any(unicodedata.category(each) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for each in shown)
    assert shown.encode().decode() == shown
    assert escaped(shown, limit) == shown


@given(st.binary(max_size=300))
def test_bytes_too(data: bytes) -> None:
    assert escaped(data, None).isprintable()
    assert len(escaped(data, 40)) <= 40


def test_what_is_long_is_cut() -> None:
    assert escaped("x" * LONGEST) == "x" * LONGEST
    assert escaped("x" * (LONGEST + 1)) == "x" * (LONGEST - 1) + "…"
    assert escaped("ü".encode() * 10**7) == "ü" * (LONGEST - 1) + "…"
    assert len(escaped("x" * 10**6, None)) == 10**6


def test_an_error_is_one_line_from_its_birth() -> None:
    error = ConnectFailed("NO_REPLY", "it said: bye\n[AQUEDUCT_AUTH] \x1b[2J", "Try\nagain")
    again = pickle.loads(pickle.dumps(error))
    for each in (error, again):
        assert str(each) == (
            r"[AQUEDUCT_CONNECT.NO_REPLY] it said: bye\n[AQUEDUCT_AUTH] \x1b[2J. "
            r"Try\nagain. SQLSTATE: 08001"
        )
        assert each.what == r"it said: bye\n[AQUEDUCT_AUTH] \x1b[2J"


def test_a_long_text_does_not_push_out_what_to_do() -> None:
    error = ConnectFailed("NO_REPLY", "x" * 10**6, "Try again")
    assert len(error.what) == LONGEST_SENTENCE
    assert str(error).endswith("…. Try again. SQLSTATE: 08001")


def test_a_lost_connection_keeps_the_reason_exact_beside_its_text() -> None:
    lost = ConnectionLost("channel 8", 3, "bye\nbye", by_peer=True)
    assert (lost.reason, "\n" in str(lost)) == ("bye\nbye", False)
