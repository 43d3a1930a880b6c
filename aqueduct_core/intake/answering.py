"""Answers to a sink that asks what is stored of what it sent, and the runs that its questions are
cut out of."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace

from aqueduct_core.aqueduct import chanid
from aqueduct_core.aqueduct.connection import Connection
from aqueduct_core.aqueduct.faults import LocalError
from aqueduct_core.aqueduct.news import Run, Single
from aqueduct_core.dedupe.questions import Answer, BadQuestion, Known, Question, is_question
from aqueduct_core.intake.groups import GroupCommit
from aqueduct_core.intake.records import Source
from aqueduct_core.intake.tally import RepeatCount

log = logging.getLogger(__name__)

MAX_SEQUENCES = 65_536
"""Sequences of one connection of which repeats are counted for an answer, as many as channels may
be open; those that were not asked about for longest go first, and are answered as 0."""


class Answering:
    """Of one connection; counts the repeats of each sequence until it is asked about."""

    def __init__(self, engine: Connection, groups: GroupCommit, clock: Callable[[], float]) -> None:
        self._engine = engine
        self._groups = groups
        self._clock = clock
        self._counts: OrderedDict[tuple[str, str, int], RepeatCount] = OrderedDict()

    def repeats(self, source: Source) -> RepeatCount:
        """What the channels of this sequence share."""
        key = source.producer, source.channel, source.space[0]
        counted = self._counts.setdefault(key, RepeatCount())
        if len(self._counts) > MAX_SEQUENCES:
            self._counts.popitem(last=False)
        return counted

    def answer(self, question: Single, writer: str) -> None:
        """Answer one question on the oneshot channel that came with it.

        Raises: BadQuestion.
        """
        asked = Question.from_payload(question.payload)
        replies = [a.channel for a in question.attachments if self._is_reply(a.channel)]
        if len(replies) != 1:
            raise BadQuestion("it has no oneshot channel for the answer")
        self._engine.drop(
            [each for each in question.attachments if each.channel not in replies], self._clock()
        )
        producer = writer if asked.partition is None else f"{writer}/{asked.partition}"
        self._groups.flush()
        stored, known = self._groups.repeats, []
        for channel, first, stop in asked.channels:
            repeated = self._counts.pop((producer, channel, first), RepeatCount())
            content = stored.content(producer, channel, (first, stop))
            known.append(Known(content, repeated.messages))
        among = None
        if asked.among is not None:
            among = stored.channels_among(producer, *asked.among)
        try:
            payload = Answer(known, among).to_payload()
            self._engine.send(replies[0], payload, now=self._clock())
        except LocalError as error:  # the peer has closed it: it does not want to know
            log.debug("no answer on channel %d: %s", replies[0], error)

    def _is_reply(self, channel: int) -> bool:
        return chanid.sender(channel) is self._engine.side and chanid.oneshot(channel)


def questions(run: Run) -> list[Single]:
    """The questions in a run."""
    if not any(map(is_question, run.headers.values())):
        return []
    return [each for each in run.messages() if is_question(each.headers)]


def others(run: Run, asked: list[Single]) -> Iterator[Run]:
    """What is left of a run without its questions: runs with the sizes of their payloads."""
    low = 0
    for high in [*(each.number - run.first for each in asked), run.count]:
        if low < high:
            yield _part(run, low, high)
        low = high + 1


def _part(run: Run, low: int, high: int) -> Run:
    """Messages ``[low, high)`` of a run."""
    start, stop = int(run.offsets[low]), int(run.offsets[high])
    return replace(
        run,
        first=run.first + low,
        count=high - low,
        payload=run.payload[start:stop],
        offsets=run.offsets[low : high + 1] - start,
        size=stop - start,
        headers={i - low: h for i, h in run.headers.items() if low <= i < high},
        attachments={i - low: a for i, a in run.attachments.items() if low <= i < high},
    )
