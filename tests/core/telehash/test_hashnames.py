"""Names of ends, and who opens odd channels."""

from __future__ import annotations

import pytest

from aqueduct_core.telehash.hashnames import dials_odd, hashname_of
from tests.support.rules import rule

LOW, HIGH = "0a" * 32, "f0" * 32


@rule("P-3")
def test_the_higher_hashname_opens_odd_channels_whoever_has_dialled() -> None:
    for dialled in (True, False):
        assert dials_odd(HIGH, LOW, dialled=dialled)
        assert not dials_odd(LOW, HIGH, dialled=not dialled)


@rule("P-3")
@pytest.mark.parametrize(("own", "peer"), [(None, LOW), (None, None), (LOW, LOW)])
def test_where_they_do_not_tell_who_has_dialled_is_odd(own: str | None, peer: str | None) -> None:
    assert dials_odd(own, peer, dialled=True)
    assert not dials_odd(peer, own, dialled=False)


def test_a_fingerprint_in_any_form_is_one_hashname() -> None:
    assert hashname_of(":".join(["0A"] * 32)) == LOW == hashname_of(LOW)


@pytest.mark.parametrize("text", ["", "0a" * 31, "0g" * 32, "0a" * 33])
def test_what_is_no_hashname(text: str) -> None:
    with pytest.raises(ValueError, match="no hashname"):
        hashname_of(text)
