"""0-RTT of intakes: of producers that come back, of remotes that are dialled, and replayed."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import channel
from aqueduct_core.aio.producer import Producer
from aqueduct_core.errors import TlsFailed
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.transport.session_file import SessionFile
from aqueduct_core.transport.sessions import MemorySessions
from aqueduct_core.transport.settings import LinkSettings, ListenLimits
from tests.core.intake.lives import run
from tests.core.intake.sessions.test_dial import connect as dialled
from tests.core.intake.sessions.test_dial import subscriptions, until, until_stored, values
from tests.support.event_loop import eventually
from tests.support.intake_process import IntakeProcess, Site
from tests.support.proxy import Impairment, Proxy
from tests.support.remote import RemoteThread, Script, payloads
from tests.support.waiting import LONG, wait_until

EARLY = ListenLimits(early_data=True)


class Recorder(Proxy):
    """Keeps what clients send, by client."""

    def __init__(self, server: tuple[str, int]) -> None:
        super().__init__(server, Impairment(delay=0.0), 0)
        self.sent: dict[Any, list[bytes]] = defaultdict(list)

    def _from_client(self, packet: bytes, client: tuple[str, int]) -> None:
        self.sent[client].append(packet)
        super()._from_client(packet, client)


async def recorder(intake: IntakeProcess) -> tuple[Recorder, str]:
    """In front of an intake; and the URL by which it is reached so."""
    made = Recorder(HostPort.parse(intake.listen))
    host, port = await made.open()
    return made, f"aqueduct://{host}:{port}"


def sessions(tickets: MemorySessions) -> int:
    return sum(len(kept.sessions) for kept in tickets._servers.values())


def test_an_intake_gives_no_sessions_unless_it_is_told_to(site: Site) -> None:
    async def main(intake: IntakeProcess) -> int:
        tickets = MemorySessions()
        async with connect(intake.url, tls=site.client_tls, tickets=tickets) as client:
            sender, receiver = channel(name="c")
            await client.entrypoint.send(b"", attach=receiver)
            await sender.finish()  # an ack is behind what the server gives
        return sessions(tickets)

    for early, expected in ((False, 0), (True, 1)):
        with site.intake(early_data=early) as intake:
            assert run(main(intake)) == expected


@pytest.mark.parametrize("restarted", [False, True])
def test_a_first_flight_that_is_replayed_stores_nothing(site: Site, restarted: bool) -> None:
    """It has messages without a producer, which nothing but the transport keeps from being
    stored twice."""
    rows = [b"%d" % number for number in range(10)]

    async def visit(url: str, tickets: MemorySessions, name: str) -> bool | None:
        client = await connect(url, tls=site.client_tls, tickets=tickets, early_data=True)
        sender, receiver = channel(name=name)
        await client.entrypoint.send(b"", attach=receiver)
        await sender.send_many(rows)
        await sender.finish()
        await eventually(lambda: sessions(tickets) > 0)
        await client.close()
        return client.early_data

    async def record(intake: IntakeProcess) -> list[bytes]:
        tickets = MemorySessions()
        between, url = await recorder(intake)
        try:
            assert await visit(url, tickets, "first") is None
            assert await visit(url, tickets, "second") is True
        finally:
            between.close()
        return list(between.sent.values())[1]

    async def replay(intake: IntakeProcess, flight: list[bytes]) -> None:
        where = HostPort.parse(intake.listen)
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
            attacker.setblocking(False)
            attacker.connect(where)
            answer = asyncio.create_task(loop.sock_recv(attacker, 65_535))
            async with asyncio.timeout(LONG):
                while not answer.done():  # the connection that it opened may not be forgotten yet
                    for packet in flight * 3:
                        await loop.sock_sendall(attacker, packet)
                    await asyncio.wait([answer], timeout=0.2)
        # what comes behind it on the same socket is served behind it
        assert await visit(intake.url, MemorySessions(), "third") is None

    def stored(intake: IntakeProcess, name: str) -> list[bytes]:
        return [row["value"] for row in intake.rows() if row["channel"] == name]

    with site.intake(early_data=True) as intake:
        flight = run(record(intake))
        assert stored(intake, "second") == rows
        if not restarted:
            run(replay(intake, flight))
            assert stored(intake, "second") == stored(intake, "third") == rows
        listen = intake.listen
    if restarted:
        with site.intake(early_data=True, listen=listen) as intake:
            run(replay(intake, flight))
            assert stored(intake, "second") == stored(intake, "third") == rows


def test_a_producer_sends_early_to_an_intake_that_was_killed_and_started_again(
    site: Site, tmp_path: Path
) -> None:
    """Its sessions are those of the dead one, so what it sends early is refused, and comes again.
    The path hides the death, or the first dial after it would use the session up."""
    tickets = SessionFile(tmp_path / "sessions.json")

    async def main() -> None:
        with site.intake(early_data=True) as intake:
            listen = intake.listen
            between, url = await recorder(intake)
            producing = Producer(
                url,
                producer="p",
                tls=site.client_tls,
                settings=LinkSettings(idle_timeout=0.5),
                tickets=tickets,
                early_data=True,
                first_wait=0.02,
                longest_wait=0.1,
            )
            await producing.open()
            cpu = producing.channel("cpu")
            await cpu.send_many([b"%d" % number for number in range(100)])
            await cpu.flush()
            await eventually(lambda: sessions(tickets) > 0)
            first = producing.connection
            intake.kill()
        with site.intake(early_data=True, listen=listen) as intake:
            await cpu.send_many([b"%d" % number for number in range(100, 200)])
            await eventually(lambda: producing.connected and producing.connection is not first)
            assert producing.connection is not None
            assert producing.connection.early_data is False
            # and the new one gave a session, with which the next connection is taken early
            await cpu.flush()
            await eventually(lambda: sessions(tickets) > 0)
            second = producing.connection
            await cpu.send_many([b"%d" % number for number in range(200, 300)])
            second.abort("test")
            await cpu.finish()
            assert producing.connection is not second
            assert producing.connection.early_data is True
            await producing.close()
            between.close()
            counts = producing.statistics
            assert (counts.sent, counts.acked) == (300, 300)
            found = await asyncio.to_thread(intake.rows)
            assert [row["value"] for row in found if row["channel"] == "cpu"] == [
                b"%d" % number for number in range(300)
            ]

    run(main())


def test_a_new_run_waits_for_what_the_intake_says_of_its_channel(site: Site) -> None:
    """Its first connection is early, and nothing is known yet of where the channel stands."""
    tickets = MemorySessions()

    async def visit(intake: IntakeProcess, *payloads: bytes) -> tuple[int, bool | None]:
        producing = Producer(
            intake.url, producer="p", tls=site.client_tls, tickets=tickets, early_data=True
        )
        cpu = producing.channel("cpu")  # before it is opened: it is carried at once
        async with producing:
            first = await cpu.send(payloads[0])
            await cpu.send_many(payloads[1:])
            await cpu.finish()
            await eventually(lambda: sessions(tickets) > 0)
            assert producing.connection is not None
            return first, producing.connection.early_data

    with site.intake(early_data=True) as intake:
        assert run(visit(intake, b"0", b"1")) == (0, None)
        assert run(visit(intake, b"2")) == (2, True)
        assert values(intake, "cpu") == [b"0", b"1", b"2"]
        listen = intake.listen
        assert intake.terminate() == 0
    with site.intake(early_data=True, listen=listen) as intake:
        assert run(visit(intake, b"3")) == (3, False)
        assert values(intake, "cpu") == [b"0", b"1", b"2", b"3"]


def test_an_intake_that_dials_keeps_sessions_with_its_spool(site: Site, tmp_path: Path) -> None:
    scripts = {"a": Script(messages=20, end="stay")}
    options: dict[str, Any] = {"producer": "remote", "sequence_start": 0, "limits": EARLY}
    file = site.spool / "sessions-aqueduct.json"

    def kept() -> int:
        if not file.exists():
            return 0
        return sum(len(each["sessions"]) for each in json.loads(file.read_bytes())["servers"])

    def told(*taken: bool) -> None:
        wait_until(lambda: remote.early == [*taken], LONG, f"early data: {taken}")

    with RemoteThread(scripts, tmp_path, **options) as remote:
        for taken in ([False], [False, True]):
            with site.intake(connect=dialled(remote, "a"), early_data=True) as intake:
                until_stored(intake, "a", 20)
                told(*taken)
                wait_until(lambda: kept() == 1, LONG, "a session")
                assert intake.terminate() == 0
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        with site.intake(connect=dialled(remote, "a"), early_data=True) as intake:
            told(False, True, True)
            until(intake, lambda status: status.counters["deduped"] >= 20)
            wait_until(lambda: kept() == 1, LONG, "a session")
            remote.vanish(forgetting=True)
            told(False, True, True, False)
            until(intake, lambda status: status.counters["deduped"] >= 40)
            assert values(intake, "a") == payloads("a", scripts["a"])


def test_a_remote_that_is_another_one_is_told_nothing_and_named_as_without_early_data(
    site: Site, tmp_path: Path
) -> None:
    scripts = {"a": Script(messages=3, end="stay")}
    file = site.spool / "sessions-aqueduct.json"
    (tmp_path / "impostor").mkdir()
    with RemoteThread(scripts, tmp_path, limits=EARLY) as remote:
        settings = dialled(remote, "a", token="hush")
        port = int(remote.endpoint.rpartition(":")[2])
        with site.intake(connect=settings, early_data=True) as intake:
            until(intake, lambda status: status.counters["rows"] == 3)
            wait_until(lambda: file.exists() and b"state" in file.read_bytes(), LONG, "a session")

    def failed(status: IntakeStatus) -> bool:
        return isinstance(subscriptions(status).endpoints[0].error, TlsFailed)

    with (
        RemoteThread(scripts, tmp_path / "impostor", limits=EARLY, port=port) as impostor,
        site.intake(connect=settings, early_data=True) as intake,
    ):
        until(intake, failed)
        assert impostor.connections == 0
        assert b"state" not in file.read_bytes()  # it was used
    # The early attempt was named in the same way, before those behind it.
    assert "AQUEDUCT_CONNECT" not in site.log.read_text()
