"""Producers under load, and the waiting that all fault tests of an intake share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.faults.ledger import Entry, Verdict, balance
from tests.faults.producer import Flow, ProducerThread
from tests.faults.tables import stored
from tests.support.intake_process import IntakeProcess
from tests.support.waiting import LONG, wait_until

FLOWS = [
    Flow("ordered", "readings", 1500.0, 200),
    Flow("unordered", "events", 500.0, 60),
    Flow("unreliable", "load", 200.0, 100),
]
PATIENCE = LONG


class Load:
    """Some `ProducerThread`; those that still run at the end are ended."""

    def __init__(self) -> None:
        self.producers: list[ProducerThread] = []

    def start(
        self, url: str, *names: str, flows: list[Flow] | None = None, **given: Any
    ) -> list[ProducerThread]:
        made = [ProducerThread(url, name, flows or FLOWS, **given).__enter__() for name in names]
        self.producers += made
        return made

    @property
    def entries(self) -> list[Entry]:
        return [entry for producer in self.producers for entry in producer.entries]

    @property
    def reliable(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.mode != "unreliable"]

    def more_acks(self, count: int) -> None:
        """Wait until that many more messages are acked of each producer that still sends."""
        sending = [producer for producer in self.producers if not producer.over]
        marks = [producer.acked + count for producer in sending]

        def past() -> bool:
            for producer in self.producers:
                producer.check()
            return all(p.acked >= mark for p, mark in zip(sending, marks, strict=True))

        wait_until(past, PATIENCE, f"{count} more acks each")

    def reconnected(self, times: int) -> None:
        """Wait until every producer of a reliable channel has a connection, its next one after that
        many that it lost. Acks alone tell less: unreliable channels have their own connections."""

        def all_back() -> bool:
            for producer in self.producers:
                producer.check()
            return all(producer.connected for producer in self.producers) and all(
                entry.reconnects >= times for entry in self.reliable
            )

        wait_until(all_back, PATIENCE, f"{times} reconnects each")

    def lost_connections(self, before: list[Entry]) -> None:
        """Wait until every producer of a reliable channel has lost its connection since, or has
        none: on a slow machine it may have lost it just before, and finds no other now."""

        def all_lost() -> bool:
            if not any(producer.connected for producer in self.producers):
                return True
            return all(
                now.reconnects > then.reconnects
                for now, then in zip(self.entries, before, strict=True)
                if now.mode != "unreliable"
            )

        wait_until(all_lost, PATIENCE, "connections that are lost")

    def run_out(self) -> None:
        """Wait until every flow has sent the most that it may, and is finished."""
        for producer in self.producers:
            producer.run_out()

    def run_out_of(self, channel: str) -> None:
        """Wait until the flow of that channel has sent the most that it may, and is settled."""

        def over() -> bool:
            for producer in self.producers:
                producer.check()
            return all(
                entry.settled and entry.sent == flow.most
                for producer in self.producers
                for entry, flow in zip(producer.entries, producer.flows, strict=True)
                if entry.channel == channel
            )

        wait_until(over, PATIENCE, f"the end of channel {channel}")

    def finish(self) -> list[Entry]:
        """All send no more; every message has its outcome on return."""
        return [entry for producer in self.producers for entry in producer.finish()]

    def settle(self, intake: IntakeProcess) -> list[Verdict]:
        """Finish, and check the ledger against what the intake stored; prints it."""
        entries = self.finish()
        lines = balance(stored(intake), entries)
        assert all(line.rows for line in lines)
        return lines


@contextmanager
def load() -> Iterator[Load]:
    running = Load()
    try:
        yield running
    finally:
        for producer in running.producers:
            producer.__exit__(AssertionError, None, None)
