"""One connection of QUICR: control streams, and the media that they or datagrams carry."""

from __future__ import annotations

from aqueduct_core.engine.actions import Action
from aqueduct_core.engine.engine import Footprint
from aqueduct_core.engine.inputs import Input, LinkLost
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.events import QuicrEvent
from aqueduct_core.quicr.media.source import MediaSource

ALPN = "quicr-h20"


class QuicrEngine:
    """One end of a connection; a `StorageEngine`.

    A transaction is named by its control stream. Over when ``closed`` is set.

    Args:
        client: this end has dialled: it may `request`, `post` and `subscribe`; the other answers.
    """

    def __init__(self, *, client: bool, config: QuicrConfig | None = None) -> None:
        self.closed: LinkLost | None = None

    # the contract of an engine

    def handle(self, input: Input, now: float) -> None: ...
    def tick(self, now: float) -> None: ...
    @property
    def wake_at(self) -> float | None: ...
    @property
    def footprint(self) -> Footprint: ...
    def actions(self) -> list[Action]: ...
    def events(self) -> list[QuicrEvent]: ...

    # what a client begins; each gives the number of the transaction

    def request(self, url: bytes, *, datagram: bool, now: float) -> int:
        """Ask for a media (Q8, Q9, Q16): what the peer still has of it, and what follows."""

    def post(self, url: bytes, source: MediaSource, *, datagram: bool, now: float) -> int:
        """Send a media; ``datagram``: the peer may choose datagrams (Q17)."""

    def subscribe(self, prefix: bytes, now: float) -> int:
        """Ask for the URLs with a prefix, those that there are and those that come (Q22)."""

    # what a server answers

    def serve(self, stream: int, source: MediaSource, now: float) -> None:
        """Send a media that was `Requested`."""

    def accept(self, stream: int, *, datagram: bool, now: float) -> None:
        """Take a media that was `Posted`. As datagrams only where the peer can."""

    def notify(self, stream: int, url: bytes, now: float) -> None:
        """Tell a URL to who has `Subscribed` (Q22); not twice."""

    # both

    def wake(self, stream: int, now: float) -> None:
        """The source that is sent on this transaction has a fragment again, or its final point."""

    def confirm(self, stream: int, now: float) -> None:
        """All of a media that comes to us is here: end our side (Q9, Q18)."""

    def cancel(self, stream: int, now: float) -> None:
        """End a transaction before its time, of any kind; `Ended` follows."""

    def consumed(self, stream: int, size: int, now: float) -> None:
        """So many bytes of `Fragments` are done with: credit for as many may go back."""

    def pause(self) -> None: ...
    def resume(self, now: float) -> None: ...
    def shutdown(self, code: int, reason: str, now: float) -> None: ...
    def stored(
        self, channel: int, first: int, stop: int, *, reliable: bool, now: float
    ) -> None: ...
    def refused(self, channel: int, first: int, stop: int, now: float) -> None: ...
