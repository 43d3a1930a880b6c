"""Spools of the toy as its intakes leave them, and what such an intake is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from aqueduct_core.intake.settings.intake import IntakeSettings, TlsSettings
from aqueduct_core.intake.storage.event_log import CONNECTED, LoggedEvent
from aqueduct_core.intake.storage.layout import settle_layout
from aqueduct_core.spool import InlineSync, Spool, SpoolSettings
from tests.support.intake_process import Site
from tests.support.waiting import LONG
from tests.toy.adapter import ADAPTER, TOPIC

PROTOCOL = "tests.toy.adapter:ADAPTER"


def toy_spool(directory: Path, messages: Sequence[bytes], topics: Sequence[str] = ("a",)) -> Path:
    """One partition with messages of the topics in turn, number *n* received *n* microseconds
    after 1970; and an event."""
    settle_layout(directory, 1, ADAPTER.name, PROTOCOL)
    count = len(messages)
    of = [
        {"topic": topics[n % len(topics)], "reading": False, "received": n, "connection": "c"}
        for n in range(count)
    ]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(messages, pa.binary()),
            pa.array(range(count), pa.int64()),
            pa.RunEndEncodedArray.from_arrays(
                pa.array(range(1, count + 1), pa.int32()), pa.array(of, TOPIC)
            ),
            ADAPTER.rows.no_events(count),
        ],
        schema=ADAPTER.rows.schema,
    )
    with Spool.open(
        directory,
        schema=ADAPTER.rows.schema,
        partitions=2,
        settings=SpoolSettings(),
        sync=InlineSync,
    ) as owner:
        owner.append(0, batch, [])
        owner.append(1, ADAPTER.rows.to_events([LoggedEvent(CONNECTED, 0, "c")], 1))
        assert owner.settle(10)
    return directory


def toy_settings(site: Site) -> IntakeSettings:
    return IntakeSettings(
        str(site.spool),
        site.credentials,
        listen="127.0.0.1:0",
        tls=TlsSettings(str(site._cert), str(site._key)),
        lease=LONG,
        protocol=PROTOCOL,
    )
