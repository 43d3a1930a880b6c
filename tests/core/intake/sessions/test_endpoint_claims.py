from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.intake.aqueduct.settings import AqueductConnect
from aqueduct_core.intake.sessions.endpoint_claims import FOLDER, claim_name, claimed, claims_of
from aqueduct_core.intake.storage import finished_channels
from aqueduct_core.intake.storage.finished_channels import FinishedChannels

ABC = ("a:1", "b:2", "[::1]:3")


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    for number in range(3):
        (tmp_path / f"intake-{number}").mkdir()
    return tmp_path


def shares(spool: Path, endpoints: tuple[str, ...], intakes: int) -> list[tuple[str, ...]]:
    return [claimed(spool / f"intake-{number}", endpoints, intakes) for number in range(3)]


def test_endpoints_that_nobody_has_are_shared_out(spool: Path) -> None:
    assert shares(spool, ABC, 2) == [("a:1", "[::1]:3"), ("b:2",), ()]


@pytest.mark.parametrize("later", [1, 2, 3])
def test_an_endpoint_stays_with_its_intake_whatever_their_number(spool: Path, later: int) -> None:
    before = shares(spool, ABC, 2)
    assert shares(spool, ABC, later) == before
    assert shares(spool, ABC[::-1], later) == [mine[::-1] for mine in before]


def test_only_new_ones_are_shared_out_among_more(spool: Path) -> None:
    assert shares(spool, ABC[:2], 1) == [("a:1", "b:2"), (), ()]
    assert shares(spool, (*ABC, "d:4"), 3) == [("a:1", "b:2", "d:4"), (), ("[::1]:3",)]
    assert shares(spool, ("b:2",), 3) == [("b:2",), (), ()]


def test_none_is_taken_that_an_intake_on_another_host_has(tmp_path: Path) -> None:
    """Two directories that share no claims; what the first holds is said with each launch."""
    near, far = tmp_path / "near" / "intake-0", tmp_path / "far" / "intake-1"
    near.mkdir(parents=True)
    far.mkdir(parents=True)
    assert claimed(near, ABC[:2], 1) == ABC[:2]
    assert claimed(far, (*ABC, "d:4"), 2, claims_of(near)) == ("d:4",)
    assert claimed(near, (*ABC, "d:4"), 2, claims_of(far)) == ABC
    # also the other way round, and when one is told that another one has what is its own
    assert claimed(far, ("d:4", *ABC), 2, claims_of(near)) == ("d:4",)
    assert claimed(near, ABC, 2, ("a:1",)) == ABC
    assert (claims_of(near), claims_of(far)) == (tuple(sorted(ABC)), ("d:4",))


def test_a_claim_that_was_given_up_is_not_taken_again_for_what_has_finished(spool: Path) -> None:
    """The remedy where two hosts have claimed one: remove the file of one of them."""
    kept = {"v": 1, "finished": {"b:2": ["x"]}}
    (spool / "intake-0" / finished_channels.FILE).write_text(json.dumps(kept))
    assert claimed(spool / "intake-0", ("b:2",), 1) == ("b:2",)
    (spool / FOLDER / "b%3A2.json").unlink()
    assert claimed(spool / "intake-0", ("b:2",), 1, ("b:2",)) == ()


def test_what_an_earlier_release_left_counts(spool: Path) -> None:
    """It kept no claims, but which channels had finished at which endpoint."""
    kept = {"v": 1, "finished": {"b:2": ["x"]}}
    (spool / "intake-0" / finished_channels.FILE).write_text(json.dumps(kept))
    assert shares(spool, ABC, 2) == [("a:1", "b:2", "[::1]:3"), (), ()]


@pytest.mark.parametrize(
    ("text", "other"),
    [("b:2", "B.:02"), ("[::1]:3", "[0:0::01]:3"), ("LOCALHOST:1", "localhost:1")],
)
def test_an_endpoint_has_one_name_however_it_is_written(spool: Path, text: str, other: str) -> None:
    """Also in files of a release that kept what it was given."""
    kept = {"v": 1, "finished": {text: ["x"], other: ["y"], "c:9": ["z"]}}
    (spool / "intake-1" / finished_channels.FILE).write_text(json.dumps(kept))
    (spool / FOLDER).mkdir()
    (spool / FOLDER / claim_name(text)).write_text('{"v": 1, "intake": 1}')
    endpoints = AqueductConnect((other,)).endpoints
    assert AqueductConnect((f"aqueduct://{text}",)).endpoints == endpoints
    assert AqueductConnect(("q:1",), elsewhere=(text,)).elsewhere == endpoints
    assert shares(spool, endpoints, 1) == [(), endpoints, ()]
    assert claims_of(spool / "intake-1") == endpoints
    assert len(list((spool / FOLDER).iterdir())) == 1
    assert sorted(FinishedChannels(spool / "intake-1").of(endpoints[0])) == ["x", "y"]


def test_of_those_that_claim_at_a_time_one_gets_it(spool: Path) -> None:
    """Two queries on one spool, each with another number of intakes."""
    for round in range(50):
        endpoint = (f"x:{round + 1}", f"y:{round + 1}")
        with ThreadPoolExecutor(2) as pool:
            one = pool.submit(claimed, spool / "intake-0", endpoint, 1)
            two = pool.submit(claimed, spool / "intake-1", endpoint, 2)
        assert sorted(one.result() + two.result()) == sorted(endpoint)


def test_a_damaged_claim_is_told_and_mended_as_it_is_told(spool: Path) -> None:
    claimed(spool / "intake-0", ABC, 1)
    claim = spool / FOLDER / "b%3A2.json"
    claim.write_text("{}")
    with pytest.raises(SpoolFailed, match=r"CORRUPT.*b%3A2") as damaged:
        claimed(spool / "intake-0", ABC, 1)
    content = re.search(r"Write (\{.*\}) into it", damaged.value.remedy)
    assert content is not None, damaged.value.remedy
    claim.write_text(content[1].replace("N", "0"))
    assert claimed(spool / "intake-0", ABC, 1) == ABC


def test_an_intake_on_its_own_shares_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="dials all"):
        claimed(tmp_path, ABC, 2)
