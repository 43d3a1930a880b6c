"""Networks that lose, repeat, delay, go dark and move; rows 22 to 25 and 30 of the matrix."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.faults.load import PATIENCE, Load
from tests.faults.network import Network, namespaces
from tests.faults.producer import PATIENT, Flow
from tests.support.intake_process import IntakeProcess, Site
from tests.support.ports import free_port
from tests.support.proxy import Impairment, udp_socket
from tests.support.waiting import LONG, alive, wait_until

LARGE = 700
"""Bytes of which no two payloads fit into one packet."""


@contextmanager
def behind_a_network(
    site: Site, listen: str = "127.0.0.1:0"
) -> Iterator[tuple[IntakeProcess, Network]]:
    with site.intake(listen=listen) as intake:
        port = int(intake.listen.rpartition(":")[2])
        with Network(("127.0.0.1", port)) as network:
            yield intake, network


def test_fault_22_loss_reordering_and_repeats_change_nothing(site: Site, producers: Load) -> None:
    """20 % lost, 25 % overtaken, 1 % twice, in both directions: slower, and exact."""
    flows = [
        Flow("ordered", "readings", 300.0, 200, most=600),
        Flow("unordered", "events", 300.0, 60, most=600),
        Flow("unreliable", "load", 100.0, LARGE, most=200),
    ]
    with behind_a_network(site) as (intake, network):
        producers.start(network.url, "p", flows=flows, tls=site.client_tls, settings=PATIENT)
        producers.more_acks(10)
        network.proxy.impairment = Impairment(loss=0.2, duplicate=0.01, reorder=0.25)
        producers.run_out()
        *_, load = producers.settle(intake)
        up = network.proxy.counts["up"]
        assert 0.1 < up.dropped / up.seen < 0.3
        assert load.nacked > 0
        assert load.sent == load.acked + load.nacked == 200
        assert load.rows == load.acked


def test_fault_23_a_short_blackout_keeps_the_connection(site: Site, producers: Load) -> None:
    with behind_a_network(site) as (intake, network):
        producers.start(network.url, "p", flows=RELIABLE, tls=site.client_tls, settings=PATIENT)
        producers.more_acks(200)
        dark(network, 0.4)
        producers.more_acks(200)
        producers.settle(intake)
        assert [entry.reconnects for entry in producers.entries] == [0, 0]
        assert [entry.resent for entry in producers.entries] == [0, 0]
        assert intake.status().counters["accepted"] == 1


@pytest.mark.long
def test_fault_23_a_long_blackout_ends_in_a_new_connection(site: Site, producers: Load) -> None:
    """Longer than the idle timeout: reconnect, send again, deduplicate."""
    with behind_a_network(site) as (intake, network):
        producers.start(network.url, "p", tls=site.client_tls)
        producers.more_acks(200)
        before = producers.entries
        network.proxy.dark = True
        producers.lost_connections(before)
        network.proxy.dark = False
        producers.more_acks(200)
        producers.settle(intake)
        assert any(entry.resent for entry in producers.reliable)


def test_fault_23_lost_acks_do_not_store_twice(site: Site, producers: Load) -> None:
    """Only the way back goes dark: all that the producer sends again is stored already."""
    with behind_a_network(site) as (intake, network):
        producers.start(network.url, "p", flows=RELIABLE, tls=site.client_tls)
        producers.more_acks(200)
        before = producers.entries
        network.proxy.deaf = "down"
        producers.lost_connections(before)
        network.proxy.deaf = None
        producers.more_acks(200)
        producers.settle(intake)
        assert intake.status().counters["deduped"] > 0


def test_fault_24_a_client_that_moves_keeps_its_connection(site: Site, producers: Load) -> None:
    """A new port, a new address, and where this process may make them two networks of their own:
    the connection goes on, and no message is sent again."""
    port = free_port()
    with (
        namespaces(2) as networks,
        behind_a_network(site, f"0.0.0.0:{port}") as (intake, network),
    ):
        places: list[Callable[[], socket.socket]] = [
            lambda: udp_socket(("127.0.0.1", port)),
            lambda: udp_socket(("127.0.0.1", port), "127.0.0.9"),
        ]
        for space in networks or ():
            places.append(lambda space=space: space.socket(port))  # type: ignore[misc]
        producers.start(network.url, "p", flows=RELIABLE, tls=site.client_tls, settings=PATIENT)
        for place in places:
            producers.more_acks(200)
            network.rebind(place)
        producers.more_acks(200)
        producers.settle(intake)
        assert [entry.reconnects for entry in producers.entries] == [0, 0]
        assert [entry.resent for entry in producers.entries] == [0, 0]
        assert intake.status().counters["accepted"] == 1
        print(f"moved {len(places)} times, namespaces: {'yes' if networks else 'no'}")


def test_fault_25_a_datagram_behind_its_nack_is_never_a_row(site: Site, producers: Load) -> None:
    """Some packets are held for longer than the receipt deadline: their messages were nacked."""
    flows = [Flow("unreliable", "load", 150.0, LARGE, most=300)]
    with behind_a_network(site) as (intake, network):
        producers.start(network.url, "p", flows=flows, tls=site.client_tls, settings=PATIENT)
        producers.more_acks(10)
        network.proxy.impairment = Impairment(reorder=0.1, delay=0.001, hold=2.0, only_held=LARGE)
        producers.run_out()
        [load] = producers.settle(intake)
        assert network.proxy.counts["up"].dropped == 0
        assert load.nacked > 0
        assert load.sent == load.acked + load.nacked == 300
        assert load.rows == load.acked
        assert intake.status().counters["nacked"] == load.nacked


def test_fault_30_a_flood_of_garbage_stops_nobody(site: Site, producers: Load) -> None:
    with site.intake() as intake:
        producers.start(intake.url, "p", flows=RELIABLE, tls=site.client_tls, settings=PATIENT)
        producers.more_acks(300)
        quiet = intake.status().counters["accepted"]
        host, port = intake.listen.rsplit(":", 1)
        with flood((host, int(port))) as sent:
            wait_until(lambda: sent[0] > 20_000, PATIENCE, "a flood")
            producers.more_acks(1_000)
        producers.settle(intake)
        status = intake.status()
        assert status.counters["accepted"] == quiet
        assert status.connections == 0
        assert [entry.reconnects for entry in producers.entries] == [0, 0]
        assert alive(intake.pid)


RELIABLE = [Flow("ordered", "readings", 500.0, 200), Flow("unordered", "events", 200.0, 60)]


def dark(network: Network, seconds: float) -> None:
    """A blackout of that length: it is the fault itself that takes time."""
    network.proxy.dark = True
    threading.Event().wait(seconds)
    network.proxy.dark = False


@contextmanager
def flood(target: tuple[str, int]) -> Iterator[list[int]]:
    """Noise in all sizes, and packets that look like the first one of a QUIC connection, as fast
    as one thread sends them; gives how many went out."""
    over = threading.Event()
    sent = [0]
    looks = b"\xc0\x00\x00\x00\x01\x08"
    packets = [os.urandom(size) for size in (0, 1, 20, 600, 1200, 1400)]
    packets += [looks + os.urandom(1200 - len(looks)) for _ in range(4)]
    packets += [b"\x40" + os.urandom(60) for _ in range(4)]

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noise:
            while not over.is_set():
                for packet in packets:
                    noise.sendto(packet, target)
                sent[0] += len(packets)
                over.wait(0.001)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield sent
    finally:
        over.set()
        thread.join(LONG)
