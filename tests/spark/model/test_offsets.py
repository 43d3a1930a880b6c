"""Offsets: the text in the checkpoint, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.errors import CheckpointVersion
from aqueduct_spark.model.offsets import SpoolPosition, StreamOffset

POSITION = SpoolPosition("5f1c", "127.0.0.1:7001", 3, (120, 98))
CUT = POSITION.to_json()


def test_the_text_is_as_documented() -> None:
    offset = StreamOffset({0: POSITION}, launch=1, tick=4, query="a1b2")
    assert json.dumps(offset.to_json(), separators=(",", ":")) == (
        '{"v":2,"spool":{"0":{"id":"5f1c","at":"127.0.0.1:7001","epoch":3,"to":[120,98]}},'
        '"launch":1,"tick":4,"query":"a1b2"}'
    )
    cut = offset.with_cuts({(0, 1): (40, 69)})
    assert json.dumps(cut.to_json(), separators=(",", ":")) == (
        '{"v":2,"spool":{"0":{"id":"5f1c","at":"127.0.0.1:7001","epoch":3,"to":[120,98],'
        '"cut":{"1":[40,29]}}},"launch":1,"tick":4,"query":"a1b2"}'
    )
    dialling = StreamOffset({0: replace(POSITION, dials=("a:1", "b:2"))})
    assert '"to":[120,98],"dials":["a:1","b:2"]}' in json.dumps(
        dialling.to_json(), separators=(",", ":")
    )
    launching = offset.with_cuts({}, 3)
    assert '"launch":1,"places":3,"tick":4,' in json.dumps(
        launching.to_json(), separators=(",", ":")
    )
    assert cut == offset == launching, "the tasks are no part of the position"


def test_intakes_are_in_numeric_order() -> None:
    spool = dict.fromkeys((10, 2, 0), POSITION)
    assert list(StreamOffset(spool).to_json()["spool"]) == ["0", "2", "10"]


positions = st.builds(
    SpoolPosition,
    st.text(min_size=1),
    st.text(min_size=1),
    st.integers(0, 2**53),
    st.lists(st.integers(0, 2**62), min_size=1, max_size=4).map(tuple),
    st.lists(st.text(), max_size=2).map(tuple),
)


@given(
    st.builds(
        StreamOffset,
        st.dictionaries(st.integers(0, 99), positions, max_size=3),
        st.integers(0, 2**31),
        st.integers(0, 2**31),
        query=st.text(),
    ),
    st.sets(st.integers(1, 2**62), min_size=1).map(sorted).map(tuple),
    st.integers(0, 99),
)
def test_what_is_written_is_read_again(
    offset: StreamOffset, cuts: tuple[int, ...], places: int
) -> None:
    offset = offset.with_cuts({(i, log): cuts for i in offset.spool for log in (0, 1)}, places)
    text = json.dumps(offset.to_json())
    again = StreamOffset.from_json(json.loads(text), "aqueduct")
    assert (again, again.cuts, again.places) == (offset, offset.cuts, offset.places)
    assert json.dumps(again.to_json()) == text


FIXTURES = Path(__file__).parent / "fixtures" / "offsets_v1"


@pytest.mark.parametrize("number", range(4))
def test_offsets_of_version_1_are_read_for_ever(number: int) -> None:
    """Offset files as checkpoints have them: of a launch, of a first entry, of two intakes of
    which one is missing, and of a view with one log. Spark compares offsets by their text."""
    text = (FIXTURES / str(number)).read_text().splitlines()[-1]
    offset = StreamOffset.from_json(json.loads(text), "aqueduct")
    assert json.dumps(offset.to_json()) == text
    assert offset.cuts is None
    assert offset.launch == (1, 1, 3, 3)[number]
    assert [p.to for p in offset.spool.values()] == [
        [],
        [(0, 0)],
        [(120, 98), (9007199254740993, 0)],
        [(17,)],
    ][number]


def test_offsets_of_version_2_are_read_for_ever() -> None:
    """Of a batch of which one log of the second intake was split in three."""
    text = (FIXTURES.with_name("offsets_v2") / "0").read_text().splitlines()[-1]
    offset = StreamOffset.from_json(json.loads(text), "aqueduct")
    assert json.dumps(offset.to_json()) == text
    assert offset.cuts == {(2, 0): (9007199254740000, 9007199254740500)}
    assert offset.places == 0


def test_offsets_of_version_3_are_read_for_ever() -> None:
    """The query was reset in one spool of two."""
    text = (FIXTURES.with_name("offsets_v3") / "0").read_text().splitlines()[-1]
    offset = StreamOffset.from_json(json.loads(text), "aqueduct")
    assert json.dumps(offset.to_json()) == text
    assert [offset.spool[i].reset for i in (0, 1)] == ["0b6a3c0f0b8e4f6d9a5a7c2e1d3f4a5b", ""]


def test_a_version_says_what_an_older_package_would_misread() -> None:
    never = StreamOffset({0: POSITION}, query="q")
    assert never.to_json()["v"] == 2
    assert never.with_position(0, replace(POSITION, reset="r")).to_json()["v"] == 3


def test_a_newer_version_is_refused_by_its_number() -> None:
    with pytest.raises(CheckpointVersion, match="version 4"):
        StreamOffset.from_json({"v": 4, "anything": []}, "aqueduct")


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"v": "1"},
        {"v": 0, "spool": {}, "launch": 0, "tick": 0},
        {"v": 1, "spool": {}},
        {"v": 1, "spool": [], "launch": 0, "tick": 0},
        {"v": 1, "spool": {"x": POSITION.to_json()}, "launch": 0, "tick": 0},
        {"v": 1, "spool": {"0": {**POSITION.to_json(), "to": []}}, "launch": 0, "tick": 0},
        {"v": 1, "spool": {"0": {**POSITION.to_json(), "to": [-1]}}, "launch": 0, "tick": 0},
        {"v": 1, "spool": {}, "launch": float("inf"), "tick": 0},
        {"v": 2, "spool": {"0": {**CUT, "cut": {"1": [40, 0]}}}, "launch": 0, "tick": 0},
        {"v": 2, "spool": {"0": {**CUT, "cut": {"1": []}}}, "launch": 0, "tick": 0},
        {"v": 2, "spool": {"0": {**CUT, "cut": {"x": [4]}}}, "launch": 0, "tick": 0},
        {"v": 2, "spool": {"0": {**CUT, "cut": [4]}}, "launch": 0, "tick": 0},
        {"v": 2, "spool": {}, "launch": 1, "places": -1, "tick": 0},
        {"topic": {"0": 5}},
        [],
    ],
)
def test_what_is_no_offset_of_ours_is_refused(raw: dict[str, object]) -> None:
    with pytest.raises(CheckpointVersion, match="did not write"):
        StreamOffset.from_json(raw, "aqueduct")


def test_steps_leave_the_rest_alone() -> None:
    offset = StreamOffset({0: POSITION}, launch=1, tick=4)
    assert offset.launched() == StreamOffset({0: POSITION}, 2, 4)
    assert offset.ticked() == StreamOffset({0: POSITION}, 1, 5)
    assert offset.with_position(1, POSITION).spool == {0: POSITION, 1: POSITION}
    assert offset.spool == {0: POSITION}
