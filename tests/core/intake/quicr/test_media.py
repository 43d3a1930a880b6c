"""How an intake takes media in, as it is told."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.quicr.media import MediaIntake


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"delivery": "fast"}, "delivery is 'fast'"),
        ({"order": "any"}, "order is 'any'"),
        ({"hole_timeout": 0.001}, "holeTimeout is 0.001.*10ms to 1h"),
        ({"start_group": 1 << 30}, "startGroup"),
        ({"start_object": -1}, "startObject"),
    ],
)
def test_bad_values_are_refused_by_their_option(given: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidOption, match=text):
        MediaIntake(**given)
