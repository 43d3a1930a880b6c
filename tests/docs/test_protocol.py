"""The byte examples of ``docs/protocol.md`` are what they are said to be."""

from __future__ import annotations

import re
from typing import Any

import pytest

from aqueduct_core.aqueduct.conventions.positions import ChannelPosition, from_payload
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.aqueduct.wire.codec import VERSION
from tests.docs.blocks import texts
from tests.support import reference_decoder
from tests.support.repository import ROOT
from tests.support.wire import unhex

PAGE = ROOT / "docs" / "protocol.md"
EXAMPLES = [
    tuple(part.strip() for part in line.split("|"))
    for block in texts("docs/protocol.md", "frames")
    for line in block.splitlines()
]


@pytest.mark.parametrize(("carrier", "text", "expected"), EXAMPLES)
def test_examples(carrier: str, text: str, expected: str) -> None:
    side, kind = carrier.split()
    reading = reference_decoder.read(
        unhex(text),
        sender=("client", "server").index(side),
        datagram=kind == "datagram",
        version_required=False,
        ended=True,
    )
    assert reading.code is None
    assert ", ".join(map(_name, reading.frames)) == expected


def _name(frame: tuple[Any, ...]) -> str:
    name = reference_decoder.frame_name(frame[0])
    return " ".join([name, *(str(part) for part in frame[1:] if isinstance(part, int))])


def test_every_frame_has_an_example() -> None:
    shown = {part.split()[0] for *_, expected in EXAMPLES for part in expected.split(", ")}
    rows = re.findall(r"^\| `\w\w…?` \| (\w+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert set(rows) == shown
    assert len(rows) == 13


def test_every_error_code_is_listed() -> None:
    listed = re.findall(r"^\| (\d+) \| (\w+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert {name: int(number) for number, name in listed} == {code.name: code for code in Code}


def test_every_open_question_has_its_answer() -> None:
    numbers = re.findall(
        r"^\| B(\d+) \| [^|]+ \| [^|]+ \| [^|]+ \|$", PAGE.read_text("utf-8"), re.M
    )
    assert list(map(int, numbers)) == list(range(1, 46))


def test_the_version_frame() -> None:
    assert VERSION.hex(" ") in PAGE.read_text("utf-8")


def test_the_example_of_a_position_is_one() -> None:
    [example] = [text for text in texts("docs/protocol.md", "json") if '"next"' in text]
    stored = ((0, 502), (504, 510))
    assert from_payload(example.encode()) == ChannelPosition("readings", 510, 400, False, stored)
