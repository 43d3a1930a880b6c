"""Questions of a sink and their answers: there and back, and what breaks the form."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.conventions.dedupe.questions import (
    MAX_BYTES,
    MAX_CHANNELS,
    Answer,
    Asked,
    BadQuestion,
    KnownNumbers,
    Question,
    is_question,
    question_header,
)
from aqueduct_core.engine.checksum import Content


@pytest.mark.parametrize(
    "question",
    [
        Question([]),
        Question([Asked("c0", 8589934592, 10737418240), Asked("é", 0, 1)], partition=3),
        Question([Asked("c", 1, 2)], among=(0, 1 << 62)),
        Question([Asked("c", 1, 2)], source="spool/0"),
    ],
)
def test_questions_there_and_back(question: Question) -> None:
    assert Question.from_payload(question.to_payload()) == question


def test_answers_there_and_back() -> None:
    known = [
        KnownNumbers(Content(500, 0x00C0FFEE00C0FFEE), 20),
        KnownNumbers(None, 0, later=True),
        KnownNumbers(Content(), 1, later=True, uncompared=1),
    ]
    answer = Answer(known, channels_among=2)
    assert b'"checksum":"00c0ffee00c0ffee"' in answer.to_payload()
    assert Answer.from_payload(answer.to_payload()) == answer


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b'{"v":2,"channels":[]}',
        b'{"v":1}',
        b'{"v":1,"channels":[["c",2,2]]}',
        b'{"v":1,"channels":[["c",0]]}',
        b'{"v":1,"channels":[[1,0,1]]}',
        b'{"v":1,"channels":[["%s",0,1]]}' % (b"c" * 257),
        b'{"v":1,"channels":[],"partition":-1}',
        b'{"v":1,"channels":[],"among":[1,1]}',
        b'{"v":1,"channels":[],"source":""}',
        b'{"v":1,"channels":[],"source":"s","partition":0}',
        b'{"v":1,"channels":[%s]}' % b",".join([b'["c",0,1]'] * (MAX_CHANNELS + 1)),
        b" " * (MAX_BYTES + 1),
    ],
)
def test_questions_that_break_their_form(payload: bytes) -> None:
    with pytest.raises(BadQuestion):
        Question.from_payload(payload)


@pytest.mark.parametrize(
    "entry",
    [
        b"1",
        b"{}",
        b'{"repeated":-1}',
        b'{"repeated":0,"checksum":"0"}',
        b'{"repeated":0,"count":1,"checksum":"g"}',
        b'{"repeated":0,"count":1,"checksum":"10000000000000000"}',
        b'{"repeated":0,"uncompared":true}',
    ],
)
def test_answers_that_break_their_form(entry: bytes) -> None:
    with pytest.raises(BadQuestion):
        Answer.from_payload(b'{"v":1,"channels":[%s]}' % entry)


def test_a_question_is_known_by_its_header() -> None:
    assert is_question((question_header(),))
    assert not is_question(((b"checksums", b"2"),))
