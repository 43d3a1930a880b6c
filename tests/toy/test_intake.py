"""The toy through an intake process: socket, spool, Flight; and spools of one protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aqueduct_core.errors import AqueductError
from aqueduct_core.flight.tickets import Ticket
from tests.core.intake.lives import run
from tests.support.intake_process import IntakeProcess, Site
from tests.toy.adapter import ADAPTER
from tests.toy.client import toy_client
from tests.toy.spools import toy_settings

MESSAGES = [b"%d" % n for n in range(3_000)]
READINGS = [b"r%d" % n for n in range(40)]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def intake(site: Site) -> Iterator[IntakeProcess]:
    process = IntakeProcess(site, toy_settings(site))
    try:
        process.wait_ready()
        yield process
    finally:
        process.kill()


async def produce(intake: IntakeProcess) -> int:
    host, port = intake.listen.rsplit(":", 1)
    async with toy_client("weather", host, int(port), intake.site.client_tls) as client:
        client.send(MESSAGES)
        await client.read_out(READINGS)
        await client.finish()
        return client.acked_readings


def test_what_is_stored_is_what_was_sent(intake: IntakeProcess) -> None:
    acked = run(produce(intake))
    rows, events = [], []
    with intake.client() as client:
        status = client.status()
        logs = [*zip(status.starts, status.ends, strict=True), status.events]
        for log, (offset, end) in enumerate(logs):
            for batch in client.read(Ticket(status.id, log, offset, end)):
                if log < len(status.ends):
                    rows += ADAPTER.rows.expand(batch, log, offset, False, False).to_pylist()
                else:
                    events += ADAPTER.rows.expand_events(batch, log, offset).to_pylist()
                offset += batch.num_rows
    assert [row["value"] for row in rows if not row["reading"]] == MESSAGES
    assert [row["number"] for row in rows if not row["reading"]] == list(range(len(MESSAGES)))
    assert len([row for row in rows if row["reading"]]) == acked
    assert {row["topic"] for row in rows} == {"weather"}
    kinds = [event["kind"] for event in events]
    assert kinds[:3] == ["connected", "opened", "finished"]
    assert events[2]["counts"] == {"messages": len(MESSAGES)}


def test_a_spool_of_another_protocol_is_refused_with_both_names(site: Site) -> None:
    with site.intake():
        pass
    toy = IntakeProcess(site, toy_settings(site))
    try:
        with pytest.raises(AqueductError, match=r"(?s)aqueduct.*toy|toy.*aqueduct"):
            toy.wait_ready()
    finally:
        toy.kill()
