"""With which number ``send --producer`` begins: what its options mean where a channel stands."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.aqueduct.conventions.positions import ChannelPosition
from aqueduct_core.cli.numbering import beginning
from aqueduct_core.errors import InvalidOption

NEW = ChannelPosition("c", 0, None, False, ())
FINISHED = ChannelPosition("c", 300, 200, True, ((0, 300),))
BROKEN = ChannelPosition("c", 250, 200, False, ((0, 250),))
HOLEY = ChannelPosition("c", 250, 200, False, ((0, 210), (220, 250)))
UNKNOWN = ChannelPosition("c", 250, None, False, ((100, 250),))
LATE = ChannelPosition("c", 250, 200, False, ((100, 250),))
MANY = ChannelPosition("c", 1000, 900, True, tuple((n, n + 1) for n in range(800, 928, 2)))

CASES: list[tuple[ChannelPosition | None, dict[str, Any], tuple[int, int]]] = [
    (None, {}, (0, 0)),
    (None, {"resume": True}, (0, 0)),
    (None, {"resume_from": 7}, (0, 7)),
    (None, {"sequence_start": 5, "resume_from": 7}, (5, 7)),
    (NEW, {}, (0, 0)),
    (NEW, {"resume": True}, (0, 0)),
    (NEW, {"append": True}, (0, 0)),
    (FINISHED, {}, (300, 300)),
    (FINISHED, {"append": True}, (300, 300)),
    (FINISHED, {"resume": True}, (200, 200)),
    (FINISHED, {"resume_from": 300}, (200, 300)),
    (BROKEN, {"append": True}, (250, 250)),
    (BROKEN, {"resume": True}, (200, 200)),
    (BROKEN, {"resume_from": 250}, (200, 250)),
    (BROKEN, {"sequence_start": 0, "resume": True}, (0, 0)),
    (BROKEN, {"sequence_start": 200, "resume": True}, (200, 200)),
    (BROKEN, {"sequence_start": 200, "resume_from": 220}, (200, 200)),
    (BROKEN, {"sequence_start": 200, "resume_from": 250}, (200, 250)),
    (FINISHED, {"resume_from": 299}, (200, 200)),
    (BROKEN, {"sequence_start": 250}, (250, 250)),
    (FINISHED, {"sequence_start": 300}, (300, 300)),
    (NEW, {"sequence_start": 0}, (0, 0)),
    (None, {"sequence_start": 0}, (0, 0)),
    (LATE, {"sequence_start": 90, "resume": True}, (90, 90)),
    (BROKEN, {"sequence_start": 1000}, (1000, 1000)),
    (HOLEY, {"resume_from": 210}, (200, 200)),
    (UNKNOWN, {"append": True}, (250, 250)),
    (UNKNOWN, {"sequence_start": 100, "resume": True}, (100, 100)),
    (UNKNOWN, {"sequence_start": 150, "resume": True}, (150, 150)),
]


@pytest.mark.parametrize(("position", "options", "wanted"), CASES)
def test_where_the_input_begins(
    position: ChannelPosition | None, options: dict[str, Any], wanted: tuple[int, int]
) -> None:
    assert beginning(position, **options) == wanted


REFUSED: list[tuple[ChannelPosition | None, dict[str, Any], str, str]] = [
    (None, {"append": True}, "MISSING", "does not tell where the channel stands"),
    (BROKEN, {}, "MISSING", r"stands at 250, and what sent to it last \(from number 200 on\)"),
    (UNKNOWN, {}, "MISSING", "what sent to it last did not come to its end"),
    (UNKNOWN, {"resume": True}, "MISSING", "not known at which number the last run"),
    (BROKEN, {"resume_from": 199}, "BAD_VALUE", "the input begins with number 200"),
    (BROKEN, {"resume_from": 251}, "BAD_VALUE", "200 to 250 are not known to be stored"),
    (HOLEY, {"resume_from": 230}, "BAD_VALUE", "200 to 229 are not known to be stored"),
    (NEW, {"resume_from": 1}, "BAD_VALUE", "0 to 0 are not known to be stored"),
    (BROKEN, {"sequence_start": 0}, "BAD_VALUE", "is 0, but channel 'c' stands at 250: .*--resume"),
    (FINISHED, {"sequence_start": 299}, "BAD_VALUE", "is 299, but channel 'c' stands at 300"),
    (UNKNOWN, {"sequence_start": 150}, "BAD_VALUE", "is 150, but channel 'c' stands at 250"),
    (BROKEN, {"sequence_start": 210, "resume": True}, "BAD_VALUE", "inside .*begins at 200"),
    (BROKEN, {"sequence_start": 1, "resume_from": 5}, "BAD_VALUE", "inside .*begins at 200"),
    (LATE, {"sequence_start": 101, "resume": True}, "BAD_VALUE", "inside .*begins at 200"),
    (MANY, {"sequence_start": 700, "resume": True}, "BAD_VALUE", "inside .*begins at 900"),
]


@pytest.mark.parametrize(("position", "options", "subclass", "text"), REFUSED)
def test_what_would_lose_or_double_messages_is_refused(
    position: ChannelPosition | None, options: dict[str, Any], subclass: str, text: str
) -> None:
    with pytest.raises(InvalidOption, match=text) as caught:
        beginning(position, **options)
    assert caught.value.subclass == subclass
