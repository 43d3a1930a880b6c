"""The contract of halves, local and networked: what both have in common."""

from __future__ import annotations

import pytest

from tests.core.aio.scene import KINDS, pair
from tests.support.event_loop import in_loop

kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
@in_loop
async def test_both_halves_know_their_name_and_headers(kind: str) -> None:
    options = {"name": "cpu", "headers": {"unit": "s"}}
    async with pair(kind, **options) as (sender, receiver):
        for half in (sender, receiver):
            assert half.name == "cpu"
            assert half.headers == ((b"name", b"cpu"), (b"unit", b"s"))
            assert (half.channel_id is None) is (kind == "local")
