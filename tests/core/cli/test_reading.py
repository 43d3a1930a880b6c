"""What the verbs that read print of connections."""

from __future__ import annotations

import io
import json
from typing import Any

from aqueduct_core.aio.halves import Receiver
from aqueduct_core.cli.console.output import JsonLines
from aqueduct_core.cli.console.printing import Printer
from aqueduct_core.cli.reading import ChannelPrinter
from tests.core.aio.scene import scene
from tests.support.event_loop import eventually, in_loop


@in_loop
async def test_a_connection_that_is_lost_by_an_error_of_quic_says_so() -> None:
    out = io.BytesIO()
    async with scene() as set_up, Printer() as printer:
        reading = ChannelPrinter(JsonLines(out), printer, None)
        assert isinstance(set_up.served.entrypoint, Receiver)
        reading.add(set_up.served, set_up.served.entrypoint)
        link: Any = set_up.client._driver.link
        link._quic.close(error_code=3, frame_type=0, reason_phrase="a test")
        set_up.client._driver.kick()
        await eventually(lambda: reading.idle and not reading._connections)
    ends = {row["kind"]: row["reason"] for row in map(json.loads, out.getvalue().splitlines())}
    lost = "lost: QUIC's FLOW_CONTROL_ERROR (0x3) from the peer: a test"
    assert ends["disconnected"] == ends["closed"] == lost
