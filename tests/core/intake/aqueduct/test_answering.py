"""A client asks what is stored of what it sent: answers, and questions that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.aqueduct.conventions.dedupe.questions import (
    MAX_BYTES,
    MAX_CHANNELS,
    Answer,
    Asked,
    BadQuestion,
    KnownNumbers,
    Question,
    question_header,
)
from aqueduct_core.aqueduct.conventions.headers import (
    CODE_REJECTED,
    channel_headers,
    connection_headers,
)
from aqueduct_core.aqueduct.engine import Attach
from aqueduct_core.aqueduct.events import Opened
from aqueduct_core.engine.checksum import Content, of_payloads
from aqueduct_core.engine.message_batch import Headers, MessageBatch
from tests.core.intake.bench import Bench, bench
from tests.core.intake.scene import Scene, of

LINE = (0, 1 << 62)
HEADERS: Headers = (question_header(),)


def client(b: Bench, sequence_start: int | None = None) -> Scene:
    return Scene(b, headers=connection_headers(producer="p", sequence_start=sequence_start))


def ask(scene: Scene, payload: bytes, *, oneshot: bool = True, more: int = 0) -> int:
    """The channel for the answer."""
    attach = [Attach(False, oneshot=oneshot), *[Attach(True) for _ in range(more)]]
    sent = scene.client.send(0, payload, now=scene.pair.now, headers=HEADERS, attach=attach)
    return sent.attached[0]


def answers(scene: Scene, channel: int) -> list[Answer]:
    scene.rest(0.3)
    return [
        Answer.from_payload(message.payload)
        for event in scene.told
        if isinstance(event, MessageBatch) and event.channel == channel
        for message in event.messages()
    ]


def test_the_server_says_that_it_answers(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = client(b)
        scene.rest(0.3)
        (opened,) = [event for event in scene.told if isinstance(event, Opened)]
        assert question_header() in opened.headers


def test_what_is_stored_and_what_was_repeated(tmp_path: Path) -> None:
    texts = [b"a", b"b", b"c"]
    with bench(tmp_path) as b:
        for repeated in (0, 3):
            scene = client(b)
            channel, other = scene.attach(
                channel_headers(name="c", sequence_start=0),
                channel_headers(name="d", sequence_start=5),
            )
            scene.send(channel, *texts)
            scene.send(other, b"x")
            scene.rest(0.3)
            question = Question([Asked("c", *LINE), Asked("e", *LINE), Asked("d", *LINE)])
            reply = ask(scene, question.to_payload())
            (answer,) = answers(scene, reply)
            assert answer.channels == [
                KnownNumbers(of_payloads(texts, 0), repeated),
                KnownNumbers(None, 0),
                KnownNumbers(of_payloads([b"x"], 5), repeated // 3),
            ]
            assert answer.channels_among is None
            # counted anew from here on
            scene.client.cancel(channel, scene.pair.now)
            (again,) = scene.attach(channel_headers(name="c", sequence_start=1))
            scene.send(again, b"b")
            scene.rest(0.3)
            question = Question([Asked("c", *LINE)], among=(1, 3))
            (answer,) = answers(scene, ask(scene, question.to_payload()))
            assert answer == Answer([KnownNumbers(of_payloads(texts, 0), 1)], 1)
            assert scene.closed is None
        assert {row["value"] for row in of(b, "0")} == {b""}  # the questions are no rows
        assert len(of(b, "0")) == 4


def test_the_open_group_counts(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = client(b)
        (channel,) = scene.attach(channel_headers(name="c", sequence_start=0))
        scene.send(channel, b"a")
        for _ in range(5):
            scene.take()
        assert of(b, "c") == []
        reply = ask(scene, Question([Asked("c", *LINE)]).to_payload())
        (answer,) = answers(scene, reply)
        assert answer.channels == [KnownNumbers(of_payloads([b"a"], 0), 0)]


def test_the_question_is_acked_and_its_neighbours_are_stored(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = client(b)
        scene.rest(0.1)
        question = Question([Asked("c", *LINE)]).to_payload()
        scene.send(0, b"before")
        first = ask(scene, question)
        second = ask(scene, question, more=1)
        scene.send(0, b"after")
        scene.client.finish(0, scene.pair.now)
        assert len(answers(scene, first)) == len(answers(scene, second)) == 1
        scene.rest(1.0)
        assert [row["value"] for row in of(b, "0")] == [b"before", b"after"]
        assert scene.delivered(0, True) == [0, 1, 2, 3]
        assert scene.closed is None
        tally = scene.pair.tally[scene.pair.server.side]
        assert tally.credited == tally.arrived


def test_a_numbered_entrypoint_asks_nothing(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = client(b, sequence_start=0)
        reply = ask(scene, Question([Asked("c", *LINE)]).to_payload())
        assert answers(scene, reply) == []
        assert scene.closed is None
        assert len(of(b, "0")) == 1


def _question(**given: Any) -> bytes:
    return json.dumps({"v": 1, "channels": [["c", 0, 9]]} | given).encode()


BAD = {
    "no json": b"{",
    "nested": b"[" * 100_000,
    "no object": b"[]",
    "another version": _question(v=2),
    "no channels": _question(channels=None),
    "too many": _question(channels=[["c", 0, 9]] * (MAX_CHANNELS + 1)),
    "no name": _question(channels=[[1, 0, 9]]),
    "a long name": _question(channels=[["x" * 257, 0, 9]]),
    "one number": _question(channels=[["c", 0]]),
    "an empty range": _question(channels=[["c", 9, 9]]),
    "a negative number": _question(channels=[["c", -1, 9]]),
    "a fraction": _question(channels=[["c", 0.5, 9]]),
    "beyond": _question(channels=[["c", 0, 2**62 + 1]]),
    "a bad partition": _question(partition="x"),
    "a bad pair": _question(among=[1]),
    "large": _question(more="x" * MAX_BYTES),
}


@pytest.mark.parametrize("payload", BAD.values(), ids=BAD)
def test_a_bad_question_ends_its_connection_only(tmp_path: Path, payload: bytes) -> None:
    with bench(tmp_path) as b:
        good, bad = client(b), client(b)
        (channel,) = bad.attach(channel_headers(name="c", sequence_start=0))
        bad.send(channel, b"stored")
        bad.rest(0.3)
        ask(bad, payload)
        bad.rest(0.3)
        assert bad.closed is not None
        assert bad.closed.code == CODE_REJECTED
        assert "question" in bad.closed.reason
        assert [event["kind"] for event in b.events()][-2:] == ["rejected", "disconnected"]
        (reply,) = [ask(good, Question([Asked("c", *LINE)]).to_payload())]
        (answer,) = answers(good, reply)
        assert answer.channels == [KnownNumbers(of_payloads([b"stored"], 0), 0)]


def test_a_question_without_a_way_for_the_answer(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = client(b)
        ask(scene, Question([]).to_payload(), oneshot=False)
        scene.rest(0.3)
        assert scene.closed is not None
        assert scene.closed.code == CODE_REJECTED


def test_who_takes_no_answers_is_refused_beyond_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aqueduct_core.intake.aqueduct.answering.MAX_ANSWERS", 2)
    with bench(tmp_path) as b:
        patient, greedy = client(b), client(b)
        for _ in range(4):
            asked = ask(patient, Question([Asked("c", *LINE)]).to_payload())
            assert answers(patient, asked)
        assert patient.closed is None
        for _ in range(4):  # in one burst: none of the answers was taken when the third came
            ask(greedy, Question([Asked("c", *LINE)]).to_payload())
        greedy.rest(0.3)
        assert greedy.closed is not None
        assert greedy.closed.code == CODE_REJECTED
        assert "answers" in greedy.closed.reason


def test_both_forms_come_back_as_they_were() -> None:
    question = Question([Asked("é", 5, 7)], 3, (0, 9))
    assert Question.from_payload(question.to_payload()) == question
    answer = Answer([KnownNumbers(None, 4), KnownNumbers(Content(2, 2**64 - 1), 0)], 1)
    assert Answer.from_payload(answer.to_payload()) == answer
    for bad in (
        b"",
        b'{"v":1}',
        b'{"v":1,"channels":[{}]}',
        b'{"v":1,"channels":[{"repeated":0,"count":1,"checksum":"zz"}]}',
        b'{"v":1,"channels":[{"repeated":0,"count":1,"checksum":7}]}',
        b'{"v":1,"channels":[{"repeated":0,"checksum":"00"}]}',
        b'{"v":1,"channels":[],"channels_among":-1}',
    ):
        with pytest.raises(BadQuestion):
            Answer.from_payload(bad)
