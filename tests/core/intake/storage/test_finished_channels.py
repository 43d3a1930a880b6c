from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.intake.settings.dial import Subscription
from aqueduct_core.intake.storage.finished_channels import FILE, FinishedChannels


def test_names_are_known_to_the_next_intake(tmp_path: Path) -> None:
    async def scenario() -> None:
        kept = FinishedChannels(tmp_path)
        names = ["a"]
        kept.note("x:1", names)
        kept.note("y:2", [])
        names.append("ü")
        kept.note("x:1", names)
        await kept.close()

    asyncio.run(scenario())
    kept = FinishedChannels(tmp_path)
    assert sorted(kept.of("x:1")) == ["a", "ü"]
    assert list(kept.of("y:2")) == []


def test_names_of_an_endpoint_that_is_not_dialled_now_are_kept(tmp_path: Path) -> None:
    async def note(endpoint: str, name: str) -> None:
        kept = FinishedChannels(tmp_path)
        kept.note(endpoint, [name])
        await kept.close()

    asyncio.run(note("x:1", "a"))
    asyncio.run(note("y:2", "b"))
    asyncio.run(note("x:1", "c"))
    kept = FinishedChannels(tmp_path)
    assert (sorted(kept.of("x:1")), list(kept.of("y:2"))) == (["a", "c"], ["b"])


def test_another_request_under_the_same_name_is_another_one(tmp_path: Path) -> None:
    def kept(payload: str) -> FinishedChannels:
        return FinishedChannels(tmp_path, [Subscription("a", payload=payload), Subscription("b")])

    async def note(payload: str, *names: str) -> None:
        now = kept(payload)
        now.note("x:1", names)
        await now.close()

    asyncio.run(note("{}", "a", "b"))
    assert sorted(kept("{}").of("x:1")) == ["a", "b"]
    assert list(kept("{name}").of("x:1")) == ["b"]
    asyncio.run(note("{name}", "b", "a"))
    assert sorted(kept("{name}").of("x:1")) == ["a", "b"]
    assert list(kept("{}").of("x:1")) == ["b"]


def test_what_an_earlier_release_noted_is_known_by_its_name(tmp_path: Path) -> None:
    """It kept no requests."""
    (tmp_path / FILE).write_text('{"v": 1, "finished": {"x:1": ["a"]}}')
    asked = [Subscription("a", payload="any")]
    assert list(FinishedChannels(tmp_path, asked).of("x:1")) == ["a"]


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
        kept.note("x:1", ["a"])
        await kept.close()

    asyncio.run(scenario())
    assert "cannot be written: No such file" in caplog.text
