"""Which media one endpoint is asked for: of which objects, and below which prefix."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.intake.quicr import requests as module
from aqueduct_core.intake.quicr.media import MediaIntake
from aqueduct_core.intake.quicr.requests import MediaRequests
from aqueduct_core.intake.quicr.settings import QuicrConnect


def requests(
    *urls: str, finished: dict[str, str | None] | None = None, start: int = 0, **given: Any
) -> MediaRequests:
    connect = QuicrConnect(("origin:1",), urls=urls, first_wait=1.0, longest_wait=1.0, **given)
    return MediaRequests(connect, MediaIntake(start_group=start), finished or {})


def test_what_finished_before_is_asked_for_again_for_other_objects_alone() -> None:
    first = requests("a")
    first.take(0.0)
    first.recorded("a")
    known: dict[str, str | None] = dict(first.finished_requests)
    assert requests("a", finished=known).settled
    assert requests("a", finished={"a": None}).settled
    other = requests("a", finished=known, start=3)
    assert other.take(0.0) == ["a"]


def test_a_prefix_is_never_settled_and_has_so_many_media(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_URLS", 3)
    each = requests(subscribe_prefix="p\\xff")
    assert (each.prefix, each.requested, each.settled) == (b"p\xff", 1, False)
    for number in (1, 2, 2, 3, 4, 5):
        each.add(f"p\\xff{number}")
    assert each.take(0.0) == ["p\\xff1", "p\\xff2", "p\\xff3"]
    assert not each.settled
    [failure] = each.failed
    assert (failure.channel, failure.end) == ("p\\xff4", "refused")
    for number in (1, 2, 3):
        each.recorded(f"p\\xff{number}")
    assert not each.settled
