"""What an intake stores of producers over real UDP, and what its clients read and commit."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import channel
from aqueduct_core.aio.producer import Producer
from aqueduct_core.errors import (
    AuthFailed,
    DataLoss,
    IntakeFailed,
)
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.settings.intake import AuthSettings
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.core.intake.lives import run, send_some, through_kills, values
from tests.support.intake_process import Site
from tests.support.rules import rule
from tests.support.waiting import LONG, SOON


@rule("AQ-ACK-15")
def test_what_is_acked_is_stored_and_can_be_read(site: Site) -> None:
    async def produce(url: str) -> None:
        async with connect(url, tls=site.client_tls, producer="p") as connection:
            halves = {mode: channel(mode, name=mode) for mode in MODES}
            await connection.entrypoint.send(
                b"hello", headers={"k": b"v"}, attach=[receiver for _, receiver in halves.values()]
            )
            for mode, (sender, _) in halves.items():
                for number in range(50):
                    await sender.send(b"%s %d" % (mode.encode(), number), headers={"n": b"x"})
            for sender, _ in halves.values():
                await sender.finish()
                assert sender.statistics.acked == 50

    with site.intake() as intake:
        run(produce(intake.url))
        rows = intake.rows(metadata=True)
        assert len(rows) == 151
        for mode in MODES:
            mine = [row for row in rows if row["channel"] == mode]
            assert sorted(row["value"] for row in mine) == sorted(
                b"%s %d" % (mode.encode(), number) for number in range(50)
            )
            assert {row["reliable"] for row in mine} == {mode != "unreliable"}
            assert {row["producer"] for row in mine} == {"p"}
            assert len({row["partition"] for row in mine}) == 1
            assert mine[0]["headers"] == [{"key": "n", "value": b"x"}]
            assert mine[0]["channelHeaders"] == [{"key": "name", "value": mode.encode()}]
            assert mine[0]["parentChannelId"] == mine[0]["parentMessageNum"] == 0
        ordered = [row for row in rows if row["channel"] == "ordered"]
        assert [row["messageNum"] for row in ordered] == list(range(50))
        (hello,) = [row for row in rows if row["channel"] == "0"]
        assert hello["value"] == b"hello"
        assert [item["direction"] for item in hello["attachments"]] == ["receive"] * 3
        assert hello["parentChannelId"] is None
        status = intake.status()
        assert status.counters["finished"] == 4
        assert (status.connections, status.channels) == (0, 0)


MODES = ("ordered", "unordered", "unreliable")


def test_payloads_of_any_size_and_content(site: Site) -> None:
    payloads = [b"", b"\x00\xff\xfe", os.urandom(3_000_000), b"after"]

    async def produce(url: str) -> None:
        async with connect(url, tls=site.client_tls) as connection:
            sender, receiver = channel(name="big")
            await connection.entrypoint.send(b"", attach=receiver)
            for payload in payloads:
                await sender.send(payload)
            await sender.finish()

    with site.intake() as intake:
        run(produce(intake.url))
        assert values(intake.rows(), "big") == payloads


def test_channels_of_a_tree_are_read_and_halves_that_flow_away_are_finished(site: Site) -> None:
    async def produce(url: str) -> None:
        async with connect(url, tls=site.client_tls) as connection:
            outer, outer_receiver = channel()
            inner, inner_receiver = channel()
            reply_sender, reply = channel()
            await connection.entrypoint.send(b"", attach=outer_receiver)
            await outer.send(b"carrier", attach=[inner_receiver, reply_sender])
            await inner.send(b"deep")
            assert [message async for message in reply] == []
            await inner.finish()
            await outer.finish()

    with site.intake() as intake:
        run(produce(intake.url))
        rows = {row["value"]: row for row in intake.rows(metadata=True)}
        outer, inner = rows[b"carrier"], rows[b"deep"]
        assert outer["channel"] == f"0/{outer['channelId']}"
        assert inner["channel"] == f"{outer['channel']}/{inner['channelId']}"
        assert inner["parentChannelId"] == outer["channelId"]
        assert inner["parentMessageNum"] == 0
        assert inner["producer"] == inner["connectionId"]
        assert [item["direction"] for item in outer["attachments"]] == ["receive", "send"]


def test_a_restarted_intake_goes_on_where_it_was(site: Site) -> None:
    with site.intake() as intake:
        run(send_some(intake.url, site, "first", 100))
        before = intake.rows()
        first = intake.status()
        assert intake.terminate() == 0
    with site.intake() as intake:
        status = intake.status()
        assert (status.id, status.epoch) == (first.id, first.epoch + 1)
        assert intake.rows() == before
        run(send_some(intake.url, site, "second", 100))
        rows = intake.rows()
        assert len(rows) == len(before) + 101
        for partition in range(2):
            mine = [row for row in rows if row["partition"] == partition]
            assert [row["offset"] for row in mine] == list(range(len(mine)))
            stamps = [row["timestamp"] for row in mine]
            assert stamps == sorted(stamps)


def test_fault_1_kill_9_in_mid_stream_loses_nothing_that_was_acked(site: Site) -> None:
    """FAULTS 1: a resending producer, five kills; 0 lost after ack, 0 duplicates, in order."""

    async def produce(url: str, enough: asyncio.Event, progress: list[int]) -> int:
        async with Producer(
            url,
            producer="p",
            tls=site.client_tls,
            settings=LinkSettings(idle_timeout=1.0),
            first_wait=0.02,
            longest_wait=0.2,
        ) as producer:
            readings = producer.channel("readings")
            other = producer.channel("other", "unordered")
            sent = 0
            while not enough.is_set():
                await readings.send(b"%d" % sent)
                if sent % 5 == 0:
                    await other.send(b"%d" % sent)
                sent += 1
                progress[0] = readings.statistics.acked
                if sent % 20 == 0:
                    await asyncio.sleep(0.002)
            await readings.finish()
            await other.finish()
            assert readings.statistics.acked == sent
            return sent

    async def scenario() -> tuple[int, list[dict[str, Any]]]:
        async with through_kills(site, produce, step=200) as (intake, sent, _):
            return sent, await asyncio.to_thread(intake.rows)

    sent, rows = run(scenario())
    assert values(rows, "readings") == [b"%d" % number for number in range(sent)]
    assert sorted(map(int, values(rows, "other"))) == list(range(0, sent, 5))


def test_a_cancelled_channel_keeps_the_intake_going(site: Site) -> None:
    async def produce(url: str) -> None:
        async with connect(url, tls=site.client_tls) as connection:
            sender, receiver = channel(name="cancelled")
            await connection.entrypoint.send(b"", attach=receiver)
            await sender.send(b"kept")
            await sender.flush()
            await sender.send(b"maybe")
            await sender.cancel()
        await send_some(url, site, "after", 10)

    with site.intake() as intake:
        run(produce(intake.url))
        rows = intake.rows()
        assert values(rows, "cancelled") in ([b"kept"], [b"kept", b"maybe"])
        assert len(values(rows, "after")) == 10


def test_only_a_holder_of_the_token_may_send(site: Site, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("first\n")

    with site.intake(auth=AuthSettings(token_file=str(tokens))) as intake:
        for given in ({}, {"token": "wrong"}):
            with pytest.raises(AuthFailed) as caught:
                run(send_some(intake.url, site, "refused", 1, **given))
            assert "wrong" not in str(caught.value)
        run(send_some(intake.url, site, "taken", 3, token="first"))
        tokens.write_text("second, and longer\n".replace(", and longer", ""))
        with pytest.raises(AuthFailed):
            run(send_some(intake.url, site, "refused", 1, token="first"))
        run(send_some(intake.url, site, "again", 3, token="second"))
        rows = intake.rows(metadata=True)
        assert {row["channel"] for row in rows} == {"0", "taken", "again"}
        assert not any(row["connectionHeaders"] for row in rows)
        assert intake.status().counters["rejected"] == 3
    assert "first" not in site.log.read_text()


def test_wait_answers_when_rows_are_durable(site: Site) -> None:
    async def scenario(url: str) -> float:
        with intake.client() as client:
            known = client.status().ends
            begun = time.monotonic()
            assert client.wait(known, 0.2).ends == known
            assert 0.1 < time.monotonic() - begun < SOON

            def events() -> None:
                while client.wait(known, LONG).ends == known:  # each call is cut to MAX_WAIT
                    pass

            waiting = asyncio.create_task(asyncio.to_thread(events))
            await send_some(url, site, "x", 10)
            await waiting
            return time.monotonic() - begun

    with site.intake() as intake:
        run(scenario(intake.url))


def test_commits_are_kept_and_fenced(site: Site) -> None:
    with site.intake() as intake:
        run(send_some(intake.url, site, "x", 100))
        with intake.client() as client:
            status = client.status()
            client.commit("query", status.ends)
            client.commit("query", [0, 0])
            assert client.status().committed == {"query": status.ends}
            with pytest.raises(DataLoss, match="OFFSET_AHEAD"):
                client.commit("query", [end + 1 for end in status.ends])
            with pytest.raises(DataLoss, match="SPOOL_REPLACED"):
                client.commit("query", status.ends, spool="another")
            with pytest.raises(IntakeFailed, match="epoch"):
                client.commit("query", status.ends, epoch=status.epoch + 1)
            with pytest.raises(DataLoss, match="OFFSET_AHEAD"):
                list(client.read(Ticket(status.id, 0, 0, status.ends[0] + 1)))
        assert intake.terminate() == 0
    with site.intake() as intake:
        assert intake.status().committed == {"query": status.ends}


def test_fault_15_a_full_spool_holds_producers_back_until_there_is_room(site: Site) -> None:
    async def scenario(url: str) -> None:
        async with connect(url, tls=site.client_tls) as connection:
            sender, receiver = channel(name="big")
            await connection.entrypoint.send(b"", attach=receiver)
            sending = asyncio.create_task(send_all(sender))
            with intake.client() as client:
                while not client.status().full:
                    await asyncio.sleep(0.02)
                await asyncio.sleep(0.2)
                stalled = client.status()
                assert stalled.bytes < 5_000_000
                assert not sending.done()
                while not sending.done():
                    client.commit("query", client.status().ends)
                    await asyncio.sleep(0.02)
            await sending

    async def send_all(sender: Any) -> None:
        for number in range(40):
            await sender.send(b"%02d" % number + bytes(250_000))
        await sender.finish()

    with site.intake(spool_max_bytes=2_000_000, partitions=1) as intake:
        run(scenario(intake.url))
        status = intake.status()
        assert status.counters["rows"] == 41
        assert status.starts[0] > 0
        assert max(status.ends) == 41


def test_intakes_that_share_a_port_have_some_of_the_clients_each(tmp_path: Path) -> None:
    first, second = Site(tmp_path / "first"), Site(tmp_path / "second")

    async def produce(url: str, number: int) -> None:
        async with connect(url, tls=ClientTls(insecure=True)) as connection:
            await connection.entrypoint.send(b"%d" % number)
            await connection.entrypoint.flush()

    with (
        first.intake(share_port=True) as one,
        second.intake(share_port=True, listen=one.listen) as other,
    ):
        assert one.url == other.url
        for number in range(8):
            run(produce(one.url, number))
        stored = [row["value"] for intake in (one, other) for row in intake.rows()]
        assert sorted(stored) == [b"%d" % number for number in range(8)]
