"""Subscriptions to URLs, at both ends (Q22)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence

from aqueduct_core.quicr.events import EndReason, Notified
from aqueduct_core.quicr.transactions import Transaction, TransactionContext
from aqueduct_core.quicr.wire.messages import ControlMessage, NotifyMessage

NOTIFY_AHEAD = 1 << 14
"""Bytes of a subscription that are written before the peer takes more."""
URL_BYTES = 150
"""Memory of a URL that a subscription remembers, beside its bytes, about."""


class Subscribing(Transaction):
    """We hear of URLs."""

    def handle(self, messages: Sequence[ControlMessage], size: int) -> None:
        self.consume(size)
        for message in messages:
            if not isinstance(message, NotifyMessage):
                raise self._refuse(message, "only NOTIFY may come")
            self._emit(Notified(self.stream, message.url))

    def peer_ended(self) -> None:
        if not self.over:
            self._end(EndReason.CANCELLED, by_peer=True)
        self._end_here()


class Notifying(Transaction):
    """The peer hears of URLs, of each once (Q22, Q25), as fast as it reads."""

    def __init__(self, stream: int, context: TransactionContext) -> None:
        super().__init__(stream, context)
        self._known: OrderedDict[bytes, None] = OrderedDict()
        """That were told, and behind them those that wait."""
        self._waiting: deque[bytes] = deque()

    def notify(self, url: bytes) -> None:
        """Tell a URL. Ends the subscription where too many wait already."""
        if self.over or url in self._known:
            return
        context = self._context
        self._known[url] = None
        self._waiting.append(url)
        context.url_bytes += URL_BYTES + len(url)
        self.go_on()
        if len(self._waiting) > context.config.max_notified:
            self.cancel()
        elif len(self._known) > context.config.max_notified:
            oldest, _ = self._known.popitem(last=False)
            context.url_bytes -= URL_BYTES + len(oldest)

    def go_on(self) -> None:
        """Write what waits, as far as the peer takes it."""
        while self._waiting and self._context.egress.unsent(self.stream) < NOTIFY_AHEAD:
            self._write(NotifyMessage(self._waiting.popleft()))

    def handle(self, messages: Sequence[ControlMessage], size: int) -> None:
        raise self._refuse(messages[0], "nothing may follow SUBSCRIBE")

    def peer_ended(self) -> None:
        if not self.over:
            self._end(EndReason.CANCELLED, by_peer=True)
        self._end_here()

    def _let_go(self) -> None:
        self._context.url_bytes -= sum(URL_BYTES + len(url) for url in self._known)
        self._known.clear()
        self._waiting.clear()
