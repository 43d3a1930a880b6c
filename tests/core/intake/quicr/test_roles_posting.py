"""Publishers post to an intake process: socket, spool, Flight."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.intake.lives import run
from tests.core.intake.quicr.peers import publishing
from tests.core.intake.quicr.site import (
    event_when,
    expected,
    listening,
    objects_of,
    rows_when,
    stored,
)
from tests.core.quicr.ends import media
from tests.support.intake_process import Site
from tests.support.rules import rule


@rule("Q-17", "Q-18")
@pytest.mark.parametrize("delivery", ["stream", "datagram"])
def test_what_is_posted_is_stored_and_ended_when_durable(delivery: str, tmp_path: Path) -> None:
    """Our end is the proof that all of it is durable."""
    site = Site(tmp_path)
    one, other = media(3, 2, 4, size=3_000, flags=0x81), media(1)

    async def main() -> None:
        async with (
            listening(site, delivery=delivery) as intake,
            publishing(intake.listen, site.client_tls) as publisher,
        ):
            publisher.post(b"cam/1", one, datagram=True)
            publisher.post(b"cam/\xff\\", other, datagram=True)
            await publisher.until(lambda: len(publisher.ended) == 2)
            rows, events = await stored(intake)
        assert objects_of(rows, "cam/1") == expected(one)
        assert objects_of(rows, "cam/\\xff\\\\") == expected(other)
        assert {row["droppable"] for row in rows if row["url"] == "cam/1"} == {True}
        delays = {row["queue_delay_ms"] is None for row in rows}
        assert delays == {delivery == "stream"}
        assert [event["kind"] for event in events].count("finished") == 2
        finished = next(e for e in events if (e["kind"], e["channel"]) == ("finished", "cam/1"))
        assert finished["counts"] == {"reliableStored": 9, "holes": 0, "deduped": 0}
        assert finished["reason"] is None

    run(main())


def test_what_is_posted_again_is_stored_once(tmp_path: Path) -> None:
    site, objects = Site(tmp_path), media(3, 3)
    other = dict(objects)
    at = list(objects)[4]
    other[at] = (0, b"something else")

    async def main() -> None:
        for lives in range(2):
            async with listening(site) as intake:
                for _ in range(2):
                    async with publishing(intake.listen, site.client_tls) as publisher:
                        publisher.post(b"u", objects)
                        await publisher.until(lambda: publisher.ended)
                rows, _ = await stored(intake)
                assert objects_of(rows, "u") == expected(objects)
                if not lives:
                    async with publishing(intake.listen, site.client_tls) as publisher:
                        publisher.post(b"u", other)
                        await publisher.until(lambda: publisher.ended)
                    [conflict] = await event_when(intake, "conflict")
                    assert "(1, 1)" in conflict["reason"]
                    assert conflict["first"] == conflict["last"] == at.number
                    rows, _ = await stored(intake)
                    assert objects_of(rows, "u") == expected(objects)

    run(main())


@rule("Q-19")
@pytest.mark.parametrize("delivery", ["stream", "datagram"])
def test_nothing_is_lost_between_two_posts_of_one_url(delivery: str, tmp_path: Path) -> None:
    """Each ends at its final point, and the next begins with a later group: nothing was between,
    also for a later life of the intake. What breaks off has no such end."""
    site = Site(tmp_path)
    groups = [
        {at: each for at, each in media(*[2] * (group + 1)).items() if at.group == group}
        for group in range(6)
    ]

    async def main() -> None:
        for lives in ((0, 1), (3,)):
            async with (
                listening(site, delivery=delivery) as intake,
                publishing(intake.listen, site.client_tls) as publisher,
            ):
                for group in lives:
                    publisher.ended.clear()
                    publisher.post(b"u", groups[group], datagram=True)
                    await publisher.until(lambda: publisher.ended)
                rows, events = await stored(intake)
        assert objects_of(rows, "u") == expected(groups[0] | groups[1] | groups[3])
        assert "lost" not in {event["kind"] for event in events}
        async with listening(site, delivery=delivery) as intake:
            async with publishing(intake.listen, site.client_tls) as publisher:
                publisher.post(b"u", groups[4], datagram=True, finished=False)
                await rows_when(intake, 8)
            async with publishing(intake.listen, site.client_tls) as publisher:
                publisher.post(b"u", groups[5], datagram=True)
                await publisher.until(lambda: publisher.ended)
            [lost] = await event_when(intake, "lost")
            assert "objects (4, 2) to" in lost["reason"]

    run(main())
