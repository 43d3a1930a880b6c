"""An intake process asks an origin for media: to their ends, by a prefix, and again after its own
end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.quicr.events import EndReason
from aqueduct_core.quicr.media.position import Position
from tests.core.intake.lives import run
from tests.core.intake.quicr.peers import ScriptedOrigin, serving
from tests.core.intake.quicr.site import (
    asking,
    event_when,
    expected,
    objects_of,
    rows_when,
    stored,
)
from tests.core.quicr.ends import Objects, media
from tests.support.intake_process import IntakeProcess, Site
from tests.support.rules import rule
from tests.support.waiting import LONG, wait_until


async def complete(intake: IntakeProcess) -> IntakeStatus:
    def probe() -> IntakeStatus | None:
        status = intake.status()
        return status if status.complete else None

    return await asyncio.to_thread(wait_until, probe, LONG, "the end of what was asked for")


@rule("Q-8", "Q-9")
@pytest.mark.parametrize("delivery", ["stream", "datagram"])
def test_media_are_asked_for_to_their_ends_and_then_no_more(delivery: str, tmp_path: Path) -> None:
    """With the final point and all before it durable our side ends; a media that has
    finished is not asked for by a later life of the intake."""
    site, one, other = Site(tmp_path), media(4, 3, size=2_500), media(2)

    async def main() -> None:
        origin = ScriptedOrigin()
        origin.publish(b"one", one)
        origin.publish(b"other", other, finished=False)
        async with serving(origin) as where:
            async with asking(site, where, urls=("one", "other"), delivery=delivery) as intake:
                await event_when(intake, "finished")
                await origin.until(lambda: origin.ended)
                origin.publish(b"other", media(2, 1))
                status = await complete(intake)
                assert status.subscriptions is not None
                assert (status.subscriptions.requested, status.subscriptions.finished) == (2, 2)
                rows, _ = await stored(intake)
                assert objects_of(rows, "one") == expected(one)
                assert objects_of(rows, "other") == expected(media(2, 1))
                assert await asyncio.to_thread(intake.terminate) == 0
            assert {each.reason for each in origin.ended} == {EndReason.COMPLETE}
            async with asking(site, where, urls=("one", "other"), delivery=delivery) as intake:
                await complete(intake)
                assert len((await stored(intake))[0]) == 10
        assert sorted(origin.asked) == [b"one", b"other"]

    run(main())


@rule("Q-22", "Q-25")
def test_media_under_a_prefix_are_found_while_the_intake_runs(tmp_path: Path) -> None:
    """Those that there are, and those that come; each is asked for once."""
    site = Site(tmp_path)

    async def main() -> None:
        origin = ScriptedOrigin()
        origin.publish(b"cam/1", media(2))
        origin.publish(b"mic/1", media(1))
        async with serving(origin) as where, asking(site, where, prefix="cam/") as intake:
            await event_when(intake, "finished")
            origin.publish(b"cam/2", media(1, 1))
            origin.publish(b"cam/2", media(1, 1))
            await event_when(intake, "finished", 2)
            rows, _ = await stored(intake)
            assert {row["url"] for row in rows} == {"cam/1", "cam/2"}
            status = await asyncio.to_thread(intake.status)
            assert not status.complete
            assert origin.asked == [b"cam/1", b"cam/2"]

    run(main())


@rule("Q-16")
@pytest.mark.parametrize("delivery", ["stream", "datagram"])
def test_after_a_restart_all_comes_again_and_is_stored_once(delivery: str, tmp_path: Path) -> None:
    """There is no seek; what is stored is known by URL, group and object. Killed as it was,
    the intake has lost nothing that was durable, and everything else comes again."""
    site = Site(tmp_path)
    seen: list[int] = []

    async def main() -> None:
        origin = ScriptedOrigin()
        async with serving(origin) as where:
            for life, groups in enumerate(((5, 3), (5, 6), (5, 6, 4))):
                last = life == 2
                origin.publish(b"u", media(*groups, size=5_000), finished=last)
                async with asking(site, where, urls=("u",), delivery=delivery) as intake:
                    rows = await rows_when(intake, sum(groups) - 1)
                    seen.append(len(rows))
                    if last:
                        await complete(intake)
                        rows, events = await stored(intake)
                    # killed here, with what is not durable yet
        assert objects_of(rows, "u") == expected(media(5, 6, 4, size=5_000))
        kinds = {event["kind"] for event in events}
        assert not kinds & {"gap", "lost", "conflict"}
        assert len(origin.asked) == 3

    run(main())


@rule("Q-15", "Q-16")
def test_a_start_behind_what_is_stored_is_told_as_lost(tmp_path: Path) -> None:
    """The cache of an origin keeps an object for two minutes: who was away for longer misses
    some. A first read begins where the origin does, and misses nothing (Q15)."""
    site = Site(tmp_path)

    def part(objects: Objects, first: Position, stop: Position) -> Objects:
        return {at: each for at, each in objects.items() if first <= at < stop}

    whole = media(4, 4, 4, 4)

    async def main() -> None:
        origin = ScriptedOrigin()
        async with serving(origin) as where:
            first = part(whole, Position(1, 0), Position(2, 2))
            origin.publish(b"u", first, finished=False)
            async with asking(site, where, urls=("u",)) as intake:
                await rows_when(intake, 6)
                assert not [e for e in (await stored(intake))[1] if e["kind"] in ("lost", "gap")]
            again = part(whole, Position(3, 0), Position(4, 0))
            origin.publish(b"u", again, finished=True)
            async with asking(site, where, urls=("u",)) as intake:
                [lost] = await event_when(intake, "lost")
                await complete(intake)
                rows, events = await stored(intake)
                assert objects_of(rows, "u") == expected(first | again)
                assert (lost["first"], lost["last"]) == (
                    Position(2, 2).number,
                    Position(3, 0).number - 1,
                )
                assert "(2, 2)" in lost["reason"]
                assert "begins at (3, 0)" in lost["reason"]
                assert [event["kind"] for event in events].count("lost") == 1

    run(main())


def test_objects_before_the_start_that_is_wanted_are_left_out(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def main() -> None:
        origin, objects = ScriptedOrigin(), media(3, 3, 2)
        origin.publish(b"u", objects)
        async with serving(origin) as where:
            async with asking(site, where, urls=("u",), start_group=1, start_object=2) as intake:
                await complete(intake)
                rows, events = await stored(intake)
                wanted = {at: each for at, each in objects.items() if at >= (1, 2)}
                assert objects_of(rows, "u") == expected(wanted)
                assert not {"lost", "gap"} & {event["kind"] for event in events}
            async with asking(site, where, urls=("u",)) as intake:  # another request: asked again
                await complete(intake)
                rows, _ = await stored(intake)
                found = objects_of(rows, "u")
                assert sorted(found) == sorted(expected(objects))
                assert len(found) == len(objects)

    run(main())
