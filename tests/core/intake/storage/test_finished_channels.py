from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.intake.aqueduct.settings import AqueductConnect, Subscription
from aqueduct_core.intake.aqueduct.subscriptions import Subscriptions
from aqueduct_core.intake.storage.finished_channels import FILE, FinishedChannels


def test_names_are_known_to_the_next_intake(tmp_path: Path) -> None:
    async def scenario() -> None:
        kept = FinishedChannels(tmp_path)
        names = {"a": "1"}
        kept.note("x:1", names)
        kept.note("y:2", {})
        names["ü"] = "2"
        kept.note("x:1", names)
        await kept.close()

    asyncio.run(scenario())
    kept = FinishedChannels(tmp_path)
    assert kept.of("x:1") == {"a": "1", "ü": "2"}
    assert kept.of("y:2") == {}


def test_names_of_an_endpoint_that_is_not_dialled_now_are_kept(tmp_path: Path) -> None:
    for endpoint, name in (("x:1", "a"), ("y:2", "b"), ("x:1", "c")):
        asyncio.run(note(tmp_path, endpoint, {name: "1"}))
    kept = FinishedChannels(tmp_path)
    assert (kept.of("x:1"), kept.of("y:2")) == ({"a": "1", "c": "1"}, {"b": "1"})


async def note(directory: Path, endpoint: str, finished: dict[str, str]) -> None:
    kept = FinishedChannels(directory)
    kept.note(endpoint, finished)
    await kept.close()


def finished_of(directory: Path, payload: str) -> dict[str, str]:
    """What an intake that comes back need not ask for, of two requests."""
    requests = (Subscription("a", payload=payload), Subscription("b"))
    settings = AqueductConnect(("x:1",), subscriptions=requests)
    before = FinishedChannels(directory).of("x:1")
    return Subscriptions("x:1", settings, finished=before).finished_requests


def test_another_request_under_the_same_name_is_another_one(tmp_path: Path) -> None:
    def digests(payload: str) -> dict[str, str]:
        return {"a": Subscription("a", payload=payload).digest, "b": Subscription("b").digest}

    asyncio.run(note(tmp_path, "x:1", digests("{}")))
    assert finished_of(tmp_path, "{}") == digests("{}")
    assert list(finished_of(tmp_path, "{name}")) == ["b"]
    asyncio.run(note(tmp_path, "x:1", digests("{name}")))
    assert finished_of(tmp_path, "{name}") == digests("{name}")
    assert list(finished_of(tmp_path, "{}")) == ["b"]


def test_what_an_earlier_release_noted_is_known_by_its_name(tmp_path: Path) -> None:
    """It kept no requests."""
    (tmp_path / FILE).write_text('{"v": 1, "finished": {"x:1": ["a"]}}')
    assert list(finished_of(tmp_path, "any")) == ["a"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "AQUEDUCT_SPOOL.CORRUPT"),
        ("[]", "AQUEDUCT_SPOOL.CORRUPT"),
        ('{"v": 1, "finished": {"a": 1}}', "AQUEDUCT_SPOOL.CORRUPT"),
        ('{"v": 1, "finished": {"a": ["b"]}, "requests": {"a": 1}}', "AQUEDUCT_SPOOL.CORRUPT"),
        ('{"v": 2}', "AQUEDUCT_SPOOL.VERSION"),
    ],
)
def test_a_file_that_is_not_ours_is_one_error(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(SpoolFailed) as caught:
        FinishedChannels(tmp_path)
    assert caught.value.name == name


def test_a_directory_that_takes_no_file_is_only_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        kept = FinishedChannels(tmp_path / "gone")
        kept.note("x:1", {"a": "1"})
        await kept.close()

    asyncio.run(scenario())
    assert "cannot be written: No such file" in caplog.text
