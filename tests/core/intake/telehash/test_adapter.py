"""Intake processes of Telehash with peers over UDP sockets, on both carriers; their spools beside
those of other protocols."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.cli.main import main as cli
from aqueduct_core.errors import AqueductError, InvalidOption
from aqueduct_core.intake.adapter import adapter_named
from aqueduct_core.intake.telehash.adapter import ADAPTER
from aqueduct_core.telehash.events import CloseReason
from aqueduct_core.telehash.hashnames import hashname_of
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.core.intake.lives import run
from tests.core.intake.telehash import peers
from tests.core.intake.telehash.peers import dialling
from tests.core.intake.telehash.scene import mark, settings
from tests.core.intake.telehash.site import (
    listening,
    opening,
    status_when,
    stored,
    telehash_settings,
)
from tests.support.event_loop import server_tls
from tests.support.intake_process import IntakeProcess, Site
from tests.support.rules import rule

BODIES = [b"%d" % n for n in range(300)]
CARRIERS = pytest.mark.parametrize("carrier", ["quic", "udp"])


def trust(site: Site, carrier: str) -> ClientTls | None:
    return site.client_tls if carrier == "quic" else None


def test_there_are_no_streams() -> None:
    assert adapter_named("telehash") is ADAPTER
    for given in (settings(), settings("_a", dials=True)):
        link = ADAPTER.link(given)
        assert (link.max_streams_uni, link.max_streams_bidi) == (0, 0)


@CARRIERS
def test_fault_01_what_was_acked_outlives_the_intake_and_is_known_when_it_comes_again(
    carrier: str, tmp_path: Path
) -> None:
    site, marks = Site(tmp_path), [mark(row) for row in range(300)]

    async def main() -> None:
        async with (
            listening(site, carrier=carrier) as intake,
            dialling(intake.listen, trust(site, carrier)) as peer,
        ):
            channel = await peer.open(BODIES[:200], js=marks[:200], end=False)
            await peer.delivered(channel, 200)
            intake.kill()
        async with (
            listening(site, carrier=carrier) as intake,
            dialling(intake.listen, trust(site, carrier)) as peer,
        ):
            channel = await peer.open(BODIES, js=marks)
            await peer.until(lambda: channel in peer.closed)
            assert peer.closed[channel].reason is CloseReason.ENDED
            rows, events = await stored(intake)
            assert sorted(row["value"] for row in rows) == sorted(BODIES)
            assert len({row["channel_epoch"] for row in rows}) == 2
            finished = [each for each in events if each["kind"] == "finished"]
            assert [each["counts"]["reliableStored"] for each in finished] == [100]
            assert [each["counts"]["deduped"] for each in finished] == [200]
            assert {each["producer"] for each in events} == {row["peer"] for row in rows}

    run(main())


@CARRIERS
def test_an_ack_waits_for_the_commit_of_a_query(carrier: str, tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def main() -> None:
        async with (
            listening(site, carrier=carrier, ack_level="committed") as intake,
            dialling(intake.listen, trust(site, carrier)) as peer,
        ):
            channel = await peer.open([b"a", b"b"])
            status = await status_when(intake, lambda status: sum(status.ends) == 2)
            assert peer.acked == {}

            def commit() -> None:
                with intake.client() as client:
                    client.commit("query", list(status.ends))

            await asyncio.to_thread(commit)
            await peer.delivered(channel, 2)

    run(main())


def test_commits_that_come_too_late_are_told_in_status_and_log(tmp_path: Path) -> None:
    """As with triggers of 20 s, and peers that wait for 10."""
    site = Site(tmp_path)

    async def main() -> None:
        async with (
            listening(site, ack_level="committed") as intake,
            dialling(intake.listen, site.client_tls, channel_timeout=0.3) as peer,
        ):
            channel = await peer.open([b"a", b"b"])
            await peer.until(lambda: channel in peer.closed)
            assert peer.closed[channel].reason is CloseReason.TIMED_OUT
            status = await status_when(intake, lambda status: status.stalls)
            [stall] = status.stalls
            assert stall.kind == "commits-late"
            assert "set ackLevel=stored" in stall.remedy
            _, events = await stored(intake)
            [cancelled] = [each for each in events if each["kind"] == "cancelled"]
            assert "set ackLevel=stored" in cancelled["reason"]
            assert await asyncio.to_thread(intake.terminate) == 0
        assert "peers have given up 1 channels" in site.log.read_text()

    run(main())


@CARRIERS
def test_an_intake_that_dials_reads_each_type_to_its_end(carrier: str, tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def main() -> None:
        async with (
            peers.listening(plain=carrier == "udp") as (station, where),
            opening(site, where, carrier=carrier, types=("_a", "_b")) as intake,
        ):
            peer = await station.line(0)
            await peer.until(lambda: len(peer.opened) == 2)
            for channel, opened in peer.opened.items():
                await peer.send(channel, [opened.type.encode()] * 50)
            status = await status_when(intake, lambda status: status.complete)
            assert status.subscriptions is not None
            assert (status.subscriptions.requested, status.subscriptions.finished) == (2, 2)
            rows, _ = await stored(intake)
            assert sorted(row["type"] for row in rows) == ["_a"] * 50 + ["_b"] * 50
            if carrier == "quic":
                assert {row["peer"] for row in rows} == {hashname_of(server_tls().fingerprint)}
            else:
                assert {row["peer"] for row in rows} == {where}

    run(main())


def test_fault_02_an_intake_that_is_ended_acks_what_it_has_first(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def main() -> None:
        async with (
            listening(site, group_commit=5.0) as intake,
            dialling(intake.listen, site.client_tls) as peer,
        ):
            channel = await peer.open([b"a", b"b"], end=False)
            await status_when(intake, lambda status: status.channels == 1)
            assert await asyncio.to_thread(intake.terminate) == 0
            await peer.delivered(channel, 2)

    run(main())


LOWEST = "0" * 64


@rule("P-3")
def test_the_lower_hashname_opens_even_channels_whoever_dials(tmp_path: Path) -> None:
    """Where both are known; the others are the certificate of a listener, and an option."""
    for each in ("listens", "dials"):
        (tmp_path / each).mkdir()
    site, other = Site(tmp_path / "listens"), Site(tmp_path / "dials")

    async def main() -> None:
        async with (
            listening(site, peer_hashname=LOWEST) as intake,
            dialling(intake.listen, site.client_tls, odd=False) as peer,
        ):
            channel = await peer.open([b"a"])
            await peer.until(lambda: channel in peer.closed)
            rows, _ = await stored(intake)
            assert [(row["channel_id"], row["peer"]) for row in rows] == [(2, LOWEST)]
        async with (
            peers.listening(plain=False, odd=True) as (station, where),
            opening(other, where, types=("_a",), hashname=LOWEST),
        ):
            peer = await station.line(0)
            await peer.until(lambda: peer.opened)
            assert [*peer.opened] == [2]

    run(main())


def test_plain_udp_stays_on_this_machine_unless_it_is_trusted(tmp_path: Path) -> None:
    site = Site(tmp_path)
    refused = IntakeProcess(site, telehash_settings(site, carrier="udp", listen="0.0.0.0:0"))
    try:
        with pytest.raises(InvalidOption, match=r"udp\.trusted=true"):
            refused.wait_ready()
    finally:
        refused.kill()
    given = telehash_settings(site, carrier="udp", listen="0.0.0.0:0", udp_trusted=True)
    process = IntakeProcess(site, given)
    try:
        process.wait_ready()
        warnings: list[str] = process.ready["warnings"]
        assert warnings == [*process.status().warnings]
    finally:
        process.kill()
    assert any("neither encrypted nor authenticated" in each for each in warnings)
    assert "neither encrypted nor authenticated" in site.log.read_text()


@pytest.mark.parametrize("first", ["aqueduct", "telehash"])
def test_a_spool_of_another_protocol_is_refused_with_both_names(first: str, tmp_path: Path) -> None:
    site = Site(tmp_path)
    both: list[Any] = [site.settings(), telehash_settings(site)]
    if first == "telehash":
        both.reverse()
    one, other = both
    process = IntakeProcess(site, one)
    try:
        process.wait_ready()
    finally:
        process.kill()
    process = IntakeProcess(site, other)
    try:
        with pytest.raises(AqueductError, match=r"(?s)aqueduct.*telehash|telehash.*aqueduct"):
            process.wait_ready()
    finally:
        process.kill()


def test_the_command_line_prints_its_rows_and_events(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(tmp_path)

    async def main() -> None:
        async with (
            listening(site) as intake,
            dialling(intake.listen, site.client_tls) as peer,
        ):
            channel = await peer.open([b"a", b"b"], js=[{"n": 1}, None])
            await peer.until(lambda: channel in peer.closed)
            assert await asyncio.to_thread(intake.terminate) == 0

    run(main())
    assert cli(["spool", "ls", str(site.spool)]) == 0
    assert "(events): offsets 0 to 4" in capsys.readouterr().out
    assert cli(["spool", "cat", str(site.spool), "-J"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["type"], row["seq"], row["js"]) for row in rows] == [
        ("_a", 0, '{"n":1}'),
        ("_a", 1, None),
    ]
    for wanted, count in (
        (["--channel", "_a"], 2),
        (["--channel", "_b"], 0),
        (["--producer", "x"], 0),
    ):
        assert cli(["spool", "cat", str(site.spool), *wanted]) == 0
        assert len(capsys.readouterr().out.splitlines()) == count
    assert cli(["spool", "cat", str(site.spool), "--events", "-J"]) == 0
    kinds = [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()]
    assert kinds == ["connected", "opened", "finished", "disconnected"]
