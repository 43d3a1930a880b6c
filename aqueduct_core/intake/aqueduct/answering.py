"""Answers of a connection: where a producer's channel stands, and what is stored of what a sink
sent. A message that only asks leaves no row."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable

from aqueduct_core.aqueduct.conventions.dedupe.numbering import MAX_ROWS
from aqueduct_core.aqueduct.conventions.dedupe.questions import (
    Answer,
    BadQuestion,
    KnownNumbers,
    Question,
    is_question,
)
from aqueduct_core.aqueduct.conventions.headers import POSITION_OF, BadHeader, read_position_of
from aqueduct_core.aqueduct.conventions.positions import ChannelPosition, to_payload
from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.faults import LocalError
from aqueduct_core.aqueduct.wire import chanid
from aqueduct_core.engine.message_batch import Attachment, BatchItem, MessageBatch
from aqueduct_core.intake.sessions.channel_owners import ChannelOwners, ChannelWriter
from aqueduct_core.intake.storage.batches import ChannelSource, RepeatCount
from aqueduct_core.intake.storage.group_commit import GroupCommit

log = logging.getLogger(__name__)

MAX_SEQUENCES = 65_536
"""Sequences of one connection of which repeats are counted for an answer, as many as channels may
be open; those that were not asked about for longest go first, and are answered as 0."""

SEQUENCE_BYTES = 400
"""What each of them takes, about."""

MAX_ANSWERS = 256
"""On their way to a peer, some 20 kB each at most: one that asks and does not take them gets no
more."""


class Answering:
    """Of one connection; counts the repeats of each sequence until it is asked about."""

    def __init__(
        self,
        engine: AqueductEngine,
        groups: GroupCommit,
        owners: ChannelOwners,
        clock: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._groups = groups
        self._owners = owners
        self._clock = clock
        self._counts: OrderedDict[tuple[str, str, int], RepeatCount] = OrderedDict()
        self._answers: set[int] = set()

    @property
    def memory(self) -> int:
        """Bytes that the peer's sequences take here, about."""
        return SEQUENCE_BYTES * len(self._counts)

    def answer_position(
        self, attachment: Attachment, asker: ChannelWriter, producer: str | None, run: int | None
    ) -> bool:
        """Whether an attachment asked where a channel of its producer stands, and was answered. By
        that the channel is its run's alone."""
        number = attachment.channel
        try:
            name = read_position_of(attachment.headers)
        except BadHeader as error:
            log.debug("no position on channel %d: %s", number, error)
            return False
        if name is None or producer is None or not chanid.oneshot(number):
            return False
        if not self._engine.half_open(number) or len(self._answers) >= MAX_ANSWERS:
            return False
        self._owners.take(asker, producer, name, run)
        position = self._groups.numbers.position(producer, name)
        answer = to_payload(ChannelPosition(name, *position))
        try:
            self._engine.send(number, answer, now=self._clock())
        except LocalError as error:
            log.debug("no position on channel %d: %s", number, error)
            return False
        self._answers.add(number)
        return True

    def ended(self, channel: int) -> None:
        """A half that flows away has ended."""
        self._answers.discard(channel)

    def repeats(self, source: ChannelSource) -> RepeatCount:
        """What the channels of this sequence share."""
        first = 0 if source.floor is None else source.space[0]
        key = source.producer, source.channel, first
        counted = self._counts.setdefault(key, RepeatCount())
        if len(self._counts) > MAX_SEQUENCES:
            self._counts.popitem(last=False)
        return counted

    def answer(self, question: BatchItem, writer: str) -> None:
        """Answer one question on the oneshot channel that came with it.

        Raises: BadQuestion.
        """
        asked = Question.from_payload(question.payload)
        replies = [a.channel for a in question.attachments if self._is_reply(a.channel)]
        if len(replies) != 1:
            raise BadQuestion("it has no oneshot channel for the answer")
        if len(self._answers) >= MAX_ANSWERS:
            raise BadQuestion(f"{MAX_ANSWERS} answers wait to be taken")
        self._engine.drop(
            [each for each in question.attachments if each.channel not in replies], self._clock()
        )
        part = asked.source if asked.partition is None else asked.partition
        producer = writer if part is None else f"{writer}/{part}"
        self._groups.flush()
        stored, known = self._groups.repeats, []
        for channel, first, stop in asked.channels:
            repeated = self._counts.pop((producer, channel, first), RepeatCount())
            if asked.source is not None:
                known.append(KnownNumbers(None, repeated.messages, uncompared=repeated.uncompared))
                continue
            content = stored.content(producer, channel, (first, stop))
            later = stored.below_later(producer, channel, (first, stop))
            known.append(KnownNumbers(content, repeated.messages, later))
        among = None
        if asked.among is not None:
            among = self._channels_among(producer, *asked.among)
        try:
            payload = Answer(known, among).to_payload()
            self._engine.send(replies[0], payload, now=self._clock())
            self._answers.add(replies[0])
        except LocalError as error:  # the peer has closed it: it does not want to know
            log.debug("no answer on channel %d: %s", replies[0], error)

    def _channels_among(self, producer: str, first: int, stop: int) -> int:
        """Of how many channels of a producer numbers in ``[first, stop)`` are stored. Where
        they lie below a later batch (so many are never stored): of how many it is remembered."""
        stored = self._groups.repeats
        return sum(
            seen.overlaps(first, stop)
            if stop - first <= MAX_ROWS or not seen.covers(first, stop)
            else any(first <= low < stop for low, _ in stored.closed(producer, channel))
            for channel, seen in stored.seen_of(producer)
        )

    def _is_reply(self, channel: int) -> bool:
        return chanid.sender(channel) is self._engine.side and chanid.oneshot(channel)


def questions(batch: MessageBatch) -> list[BatchItem]:
    """The messages of a batch that ask what is stored."""
    if not any(map(is_question, batch.headers.values())):
        return []
    return [each for each in batch.messages() if is_question(each.headers)]


def position_questions(batch: MessageBatch) -> tuple[int, ...]:
    """The messages of a batch, by index, that only ask for a position; they have no row."""
    return tuple(
        index
        for index, attachments in batch.attachments.items()
        if len(attachments) == 1
        and chanid.sender(attachments[0].channel) is not chanid.sender(batch.channel)
        and any(key == POSITION_OF for key, _ in attachments[0].headers)
        and index not in batch.headers
        and batch.offsets[index] == batch.offsets[index + 1]
    )
