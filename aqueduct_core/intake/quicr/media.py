"""How an intake of QUICR takes media in. Light to import: the driver reads it when it looks up the
format."""

from __future__ import annotations

from typing import Annotated, Literal

from aqueduct_core.primitives.settings import Section, duration, number, plain
from aqueduct_core.quicr.media.position import MAX_ID, Position

MAX_URLS = 10_000
"""Media that are asked for at one endpoint, those that it tells of included."""


class MediaIntake(Section, frozen=True, kw_only=True):
    """How media come, and which of their objects become rows."""

    delivery: Annotated[
        Literal["stream", "datagram"],
        plain(
            "How media are to come: stream, whole and in order; or datagram, where one that is "
            "late holds up no other. A publisher that has no datagrams sends on a stream."
        ),
    ] = "stream"
    order: Annotated[
        Literal["media", "arrival"],
        plain(
            "Rows of a URL come in the order of the media, or as they arrive: then nothing waits "
            "behind an object that is missing."
        ),
    ] = "media"
    hole_timeout: Annotated[
        float,
        duration(
            "10ms",
            "1h",
            "With order=media the longest wait for an object behind which others are here. Then it "
            "is given up, for good: there is an event gap.",
        ),
    ] = 5.0
    start_group: Annotated[
        int,
        number(0, MAX_ID, "Rows begin with this group: what lies before comes, and is left out."),
    ] = 0
    start_object: Annotated[
        int, number(0, MAX_ID, "And with this object of it. The protocol itself cannot seek.")
    ] = 0

    @property
    def start(self) -> Position:
        return Position(self.start_group, self.start_object)
