"""How long a socket is left alone, by clocks that the test sets, and what comes meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from aqueduct_core.transport import Driver, LinkSettings, ListenLimits, moderation
from aqueduct_core.transport.addresses import connected
from aqueduct_core.transport.aioquic import congestion
from aqueduct_core.transport.dialled_socket import DialledSocket
from aqueduct_core.transport.moderation import FEW, JOINS, LITTLE, SHARE, WHOLE, Moderation
from aqueduct_core.transport.settings import MOST_MODERATION, SMALLEST_DATAGRAM
from aqueduct_core.transport.udp_socket import UdpSocket
from tests.core.transport.ends import Server, dialled, ended, serving
from tests.core.transport.probe import Probe
from tests.core.transport.test_dialled_socket import udp
from tests.core.transport.test_udp_socket import Burst, bound
from tests.support.event_loop import eventually
from tests.support.virtual_loop import let_happen, run_virtually

MOST = 0.004
COST = 0.001


class Reads:
    """A socket that is read, and what each read costs."""

    def __init__(self) -> None:
        self.now, self.used = 50.0, 7.0
        self.eager = False
        self.moderation = Moderation(MOST, lambda: self.eager, lambda: self.now, lambda: self.used)

    def read(
        self,
        after: float,
        cost: float = COST,
        datagrams: int = JOINS,
        size: int = 100,
        arrivals: int | None = None,
    ) -> float:
        """Something came ``after`` the rest, if there was one, and was read and handled."""
        self.now += after + cost
        self.used += cost
        rest = self.moderation.rest(arrivals or datagrams, [size] * datagrams)
        self.now += rest
        return rest


def test_what_comes_seldom_is_read_at_once() -> None:
    reads = Reads()
    assert [reads.read(after) for after in (1.0, 0.1, MOST, 5.0)] == [0.0] * 4


def test_what_comes_steadily_and_by_itself_is_read_together() -> None:
    reads = Reads()
    assert reads.read(1.0) == 0.0
    assert reads.read(0.001) == pytest.approx(SHARE * COST)
    assert reads.read(0.0) == pytest.approx(SHARE * COST)
    assert reads.read(0.0, cost=COST / 10) == pytest.approx(SHARE * COST / 10)
    assert reads.read(0.0, cost=100 * COST) == MOST


def test_processor_time_between_two_reads_counts() -> None:
    reads = Reads()
    reads.read(1.0)
    reads.read(0.001)
    reads.used += COST / 5  # a group was stored meanwhile
    assert reads.read(0.0) == pytest.approx(SHARE * COST * 6 / 5)


@pytest.mark.parametrize(
    ("datagrams", "size", "rests"),
    [
        (FEW, 100, True),
        (FEW + 1, 100, False),
        (FEW, LITTLE // FEW, True),
        (FEW, LITTLE // FEW + 1, False),
    ],
)
def test_behind_much_nothing_rests(datagrams: int, size: int, rests: bool) -> None:
    reads = Reads()
    reads.read(1.0)
    assert bool(reads.read(0.001, datagrams=datagrams, size=size)) is rests
    assert reads.read(0.0) > 0


@pytest.mark.parametrize(
    ("arrivals", "sizes", "rests"),
    [
        (9, [WHOLE] * 9, False),
        (1, [SMALLEST_DATAGRAM, SMALLEST_DATAGRAM, 40], False),
        (4, [300] * 9, False),
        (4, [300] * 8, True),
        (3, [WHOLE, 700] * 3, True),  # messages of two datagrams
        (10, [WHOLE - 1] * 10, True),
        (6, [WHOLE] * 3 + [100] * 4, True),  # of several, one in the midst of a flight
    ],
)
def test_behind_flights_nothing_rests(arrivals: int, sizes: list[int], rests: bool) -> None:
    reads = Reads()
    reads.read(1.0)
    reads.read(0.001)
    reads.used += COST
    assert bool(reads.moderation.rest(arrivals, sizes)) is rests


def test_nothing_rests_while_somebody_waits_for_an_answer() -> None:
    reads = Reads()
    reads.read(1.0)
    reads.eager = True
    assert reads.read(0.001) == 0.0
    reads.eager = False
    assert reads.read(0.001) > 0


def test_a_rest_in_which_nothing_came_is_the_last() -> None:
    reads = Reads()
    reads.read(1.0)
    assert reads.read(0.001) > 0
    reads.moderation.idle()
    assert reads.read(MOST) == 0.0
    assert reads.read(0.001) > 0
    assert reads.read(MOST) > 0  # as something had come within it


def test_where_rests_join_nothing_they_become_rare() -> None:
    """Also where each thing that comes is two datagrams, or an acknowledgement comes with it."""
    for arrivals in range(1, JOINS):
        reads = Reads()
        rests = [reads.read(0.001, datagrams=2, arrivals=arrivals) > 0 for _ in range(1_000)]
        assert sum(rests) < 50
        assert any(rests[-50:])


def test_a_rest_now_and_then_that_joins_nothing_changes_nothing() -> None:
    reads = Reads()
    reads.read(1.0)
    assert all(reads.read(0.0, arrivals=JOINS - number % 2) > 0 for number in range(100))


def test_where_a_rest_joins_something_again_all_reads_have_one() -> None:
    reads = Reads()
    for _ in range(1_000):
        reads.read(0.001, arrivals=1)
    while not reads.read(0.001):
        pass
    assert all(reads.read(0.0) > 0 for _ in range(100))


class Resting:
    """A socket that rests for a second behind every read, and what it reads; it is closed by
    whom ``last`` comes to, who has a fault that ``raises`` brings about."""

    def __init__(self, last: bytes = b"", raises: bytes = b"") -> None:
        self.last = last
        self.raises = raises
        self.bursts: list[list[bytes]] = []
        self.errors: list[OSError] = []
        loop = asyncio.get_running_loop()
        moderation = Moderation(1.0, lambda: False, loop.time, itertools.count(1).__next__)
        self.socket = UdpSocket(bound(), self.take, self.errors.append, moderation=moderation)
        self.sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sender.connect(self.socket.address)

    def take(self, burst: Burst) -> None:
        self.bursts.append([data for data, _ in burst])
        if self.raises in self.bursts[-1]:
            raise LookupError("a fault of who takes it")
        if self.last in self.bursts[-1]:
            self.socket.close()

    def send(self, data: bytes) -> None:
        self.sender.send(data)

    def close(self) -> None:
        self.socket.close()
        self.sender.close()


def test_while_it_rests_datagrams_gather_and_none_is_lost() -> None:
    async def main() -> None:
        ends = Resting()
        ends.send(b"a")
        await let_happen(0.1)
        assert ends.bursts == [[b"a"]]  # as nothing had come before, it did not rest behind it
        ends.send(b"b")
        await let_happen(0.1)
        assert ends.bursts == [[b"a"], [b"b"]]
        for data in (b"c", b"d", b"e"):
            ends.send(data)
            await let_happen(0.2)
        assert ends.bursts == [[b"a"], [b"b"]]
        await let_happen(0.5)
        assert ends.bursts == [[b"a"], [b"b"], [b"c", b"d", b"e"]]
        ends.send(b"f")
        await let_happen(0.1)
        assert len(ends.bursts) == 3
        await let_happen(1.0)
        assert ends.bursts[3:] == [[b"f"]]
        ends.close()

    run_virtually(main())


def test_after_a_rest_without_anything_it_is_watched_again() -> None:
    async def main() -> None:
        ends = Resting()
        ends.send(b"a")
        await let_happen(0.1)
        ends.send(b"b")
        await let_happen(5.0)
        ends.send(b"c")
        await let_happen(0.1)
        assert ends.bursts == [[b"a"], [b"b"], [b"c"]]
        assert not ends.errors
        ends.close()

    run_virtually(main())


def test_a_socket_may_be_closed_while_it_rests_and_by_what_it_reads() -> None:
    async def main() -> None:
        ends = Resting()
        ends.send(b"a")
        await let_happen(0.1)
        ends.send(b"b")
        await let_happen(0.1)
        ends.send(b"c")
        ends.close()
        await let_happen(5.0)
        assert ends.bursts == [[b"a"], [b"b"]]
        ends = Resting(last=b"c")
        for data in (b"a", b"b", b"c"):
            ends.send(data)
            await let_happen(0.1)
        await let_happen(5.0)
        assert ends.bursts == [[b"a"], [b"b"], [b"c"]]
        ends.close()

    run_virtually(main())


def test_a_fault_of_who_takes_what_came_in_a_rest_does_not_end_the_watch() -> None:
    async def main() -> None:
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: faults.append(context["exception"])
        )
        ends = Resting(raises=b"c")
        for data in (b"a", b"b", b"c"):
            ends.send(data)
            await let_happen(0.1)
        await let_happen(5.0)
        assert [type(fault) for fault in faults] == [LookupError]
        ends.send(b"d")
        await let_happen(0.1)
        assert ends.bursts == [[b"a"], [b"b"], [b"c"], [b"d"]]
        ends.close()

    run_virtually(main())


MESSAGES = 200


class Ends(NamedTuple):
    server: Server
    dialled: tuple[Driver, Probe]
    accepted: tuple[Driver, Probe]


@asynccontextmanager
async def both_ends(side: str, most: float) -> AsyncIterator[Ends]:
    """Connected, with the socket of one ``side`` moderated, which does not hold the handshake."""
    limits = ListenLimits(moderation=most if side == "listener" else 0.0)
    async with serving(limits=limits) as server:
        mine = await dialled(server, moderation=most if side == "dialled" else 0.0)
        assert asyncio.get_running_loop().time() < MOST
        await eventually(lambda: bool(server.probes))
        (other,), (theirs,) = server.listener.drivers, server.probes
        yield Ends(server, mine, (other, theirs))
        await ended(mine[0])


@pytest.mark.parametrize("side", ["listener", "dialled"])
@pytest.mark.parametrize("most", [0.0, MOST])
def test_what_a_peer_sends_one_by_one_is_read_in_fewer_turns_and_all_there(
    side: str, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four datagrams come while the socket rests."""
    monkeypatch.setattr(moderation, "SHARE", 1e9)

    async def main() -> None:
        async with both_ends(side, most) as ends:
            if side == "listener":
                (sender, sends), (_, takes) = ends.dialled, ends.accepted
                taker = ends.server.listener._socket
            else:
                (sender, sends), (receiver, takes) = ends.accepted, ends.dialled
                taker = udp(receiver)
            before = taker.counts.bursts
            for number in range(MESSAGES):
                sends.datagram(number.to_bytes(2, "big"))
                sender.kick(urgent=True)
                await let_happen(MOST / 4)
            await eventually(lambda: len(takes.datagrams) == MESSAGES)
            assert takes.datagrams == [number.to_bytes(2, "big") for number in range(MESSAGES)]
            turns = taker.counts.bursts - before
            assert turns <= MESSAGES / 3 if most else turns >= MESSAGES

    run_virtually(main())


@pytest.mark.parametrize("side", ["listener", "dialled"])
def test_a_peer_that_sends_each_message_behind_our_answer_hardly_waits(
    side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moderation, "SHARE", 1e9)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with both_ends(side, MOST) as ends:
            (driver, mine), (other, theirs) = ends.dialled, ends.accepted
            began = loop.time()
            for number in range(1, MESSAGES + 1):
                for asks, asker, answers in ((mine, driver, theirs), (theirs, other, mine)):
                    asks.datagram(bytes(2))
                    asker.kick(urgent=True)
                    while len(answers.datagrams) < number:
                        await let_happen(1e-4)
            assert loop.time() - began < MESSAGES * MOST / 4

    run_virtually(main())


def test_a_sender_with_a_small_window_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moderation, "SHARE", 1e9)
    window = 14_000
    monkeypatch.setattr(congestion, "HEADROOM", 0)
    monkeypatch.setattr(congestion, "FLOOR", window)
    monkeypatch.setattr(congestion.Bounded, "_bound", window)

    async def took(most: float) -> float:
        loop = asyncio.get_running_loop()
        async with serving(limits=ListenLimits(moderation=most)) as server:
            driver, mine = await dialled(server, settings=LinkSettings(max_datagram_size=1_452))
            await eventually(lambda: bool(server.probes))
            (theirs,) = server.probes
            began = loop.time()
            stream = mine.open()
            mine.write(stream, bytes(100 * window), end=True)
            driver.kick()
            while stream not in theirs.ended:
                await let_happen(1e-4)
            elapsed = loop.time() - began
            await ended(driver)
        return elapsed

    assert run_virtually(took(MOST)) < 2 * run_virtually(took(0.0))


def test_a_handshake_of_several_flights_is_not_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moderation, "SHARE", 1e9)

    async def main() -> None:
        limits = ListenLimits(moderation=MOST_MODERATION, retry="always")
        async with serving(limits=limits) as server:
            driver, _ = await dialled(server)
            await eventually(lambda: bool(server.probes))
            assert server.listener.counts.retried == 1
            assert asyncio.get_running_loop().time() < MOST_MODERATION
            await ended(driver)

    run_virtually(main())


def test_who_dials_does_not_rest_before_it_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moderation, "SHARE", 1e9)

    async def main() -> None:
        with bound() as peer:
            address = peer.getsockname()
            line = DialledSocket(connected(socket.AF_INET, address), address, moderation=MOST)
            taken = line._socket.counts
            for number in range(1, 9):
                peer.sendto(b"flight", line._socket.address)
                await let_happen(MOST / 4)
                assert taken.bursts == number
            line.end()

    run_virtually(main())
