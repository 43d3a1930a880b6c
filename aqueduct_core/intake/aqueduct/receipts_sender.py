"""The receipts channel of one connection: what is committed goes out on it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from aqueduct_core.aqueduct.conventions.headers import BadHeader
from aqueduct_core.aqueduct.conventions.receipts import (
    MAX_RANGES,
    CommittedMessages,
    to_payload,
    wants_receipts,
)
from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.faults import LocalError, TooMany
from aqueduct_core.aqueduct.wire import chanid
from aqueduct_core.engine.message_batch import Attachment
from aqueduct_core.intake.storage.commit_tracker import CommitTracker, CommitTrackers

log = logging.getLogger(__name__)


class ReceiptsSender:
    """Sends receipts on at most one channel at a time; what cannot go now goes later.

    Begins with `open`, when the peer attached such a channel. Ends when the peer closes that
    channel, and may begin again with another one.
    """

    def __init__(
        self,
        engine: AqueductEngine,
        commits: CommitTrackers,
        clock: Callable[[], float],
        kick: Callable[[], None],
    ) -> None:
        self.tracker: CommitTracker | None = None
        self._engine = engine
        self._commits = commits
        self._clock = clock
        self._kick = kick
        self._channel = -1
        self._unsent: bytes | None = None

    def begin(self, attachment: Attachment) -> CommitTracker | None:
        """The tracker of a channel that wants receipts; None: it does not, or cannot have any."""
        number = attachment.channel
        try:
            wanted = wants_receipts(attachment.headers) and not chanid.oneshot(number)
        except BadHeader as error:
            log.debug("no receipts on channel %d: %s", number, error)
            return None
        if not wanted or not self._engine.half_open(number):
            return None
        return self.open(number)

    def open(self, channel: int) -> CommitTracker | None:
        """Give receipts on this channel: the tracker of its messages, None when another
        channel has them already. The first message says at once that receipts are given."""
        if self.tracker is not None:
            return None
        self._channel = channel
        self.tracker = CommitTracker(self._report)
        self._unsent = to_payload(())
        self._send()
        self._commits.join(self.tracker)
        return self.tracker

    def writable(self, channel: int) -> None:
        if channel == self._channel:
            self._report()

    def ended(self, channel: int) -> None:
        if channel == self._channel:
            self.close()

    def close(self) -> None:
        if self.tracker is not None:
            self._commits.leave(self.tracker)
        self.tracker, self._channel, self._unsent = None, -1, None

    def _report(self) -> None:
        while self.tracker is not None and self._send():
            taken = self.tracker.take(MAX_RANGES)
            if not taken:
                return
            self._unsent = to_payload(
                CommittedMessages(key.channel, key.reliable, ranges, key.id)
                for key, ranges in taken
            )

    def _send(self) -> bool:
        """Whether nothing is left to send before the next message."""
        if self._unsent is None:
            return True
        try:
            self._engine.send(self._channel, self._unsent, now=self._clock())
        except TooMany:
            return False  # the peer does not read them: the tracker keeps the rest, joined
        except LocalError as error:
            log.debug("receipts on channel %d end: %s", self._channel, error)
            self.close()
            return False
        self._unsent = None
        self._kick()
        return True
