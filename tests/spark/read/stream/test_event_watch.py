"""``onCancel=fail``: a stream ends with the first cancelled channel that it wants."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.errors import ChannelEnded, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.aqueduct.rows import ROWS
from tests.spark.read.stream.loop import Loop, Yard, values
from tests.support.remote import RemoteThread, Script
from tests.support.waiting import LONG, wait_until


class TestCancels:
    """``onCancel=fail``, with a remote that cancels."""

    def loop(self, yard: Yard, remote: RemoteThread, **options: str) -> Loop:
        return yard.loop(
            endpoint=remote.url, tls_caFile=str(remote.ca_file), subscribe="a,b", **options
        )

    def test_a_cancelled_channel_ends_the_query_each_time(self, yard: Yard) -> None:
        scripts = {"a": Script(5, end="stay"), "b": Script(3, end="cancel")}
        with RemoteThread(scripts, yard.home) as remote:
            loop = self.loop(yard, remote, onCancel="fail")
            with pytest.raises(ChannelEnded, match="'b'") as ended:
                loop.until(99)
            assert ended.value.subclass == "CANCELLED"
            loop.close()
            again = yard.loop(
                loop.at,
                endpoint=remote.url,
                tls_caFile=str(remote.ca_file),
                subscribe="a,b",
                onCancel="fail",
            )
            with pytest.raises(ChannelEnded, match="'b'"):
                again.until(99)

    def test_cancels_of_channels_that_are_not_wanted_are_passed_over(self, yard: Yard) -> None:
        scripts = {"a": Script(5, end="stay"), "b": Script(3, end="cancel")}
        with RemoteThread(scripts, yard.home) as remote:
            loop = self.loop(yard, remote, onCancel="fail", channels="a")
            assert values(loop.until(5), "a") == [b"a %d" % n for n in range(5)]

    def test_a_cancel_that_cannot_be_read_is_not_passed_over(self, yard: Yard) -> None:
        scripts = {"a": Script(5, end="stay"), "b": Script(3, end="cancel")}
        with RemoteThread(scripts, yard.home) as remote:
            loop = self.loop(yard, remote, onCancel="keep")
            loop.until(8)
            loop.close()
            credentials = Credentials.for_spool(yard.spool)
            with IntakeClient(yard.intake()["flight"], credentials) as client:

                def cancelled() -> bool:
                    status = client.status()
                    asked = Ticket(status.id, len(status.ends), *status.events)
                    batches = [ROWS.expand_events(each, 0, 0) for each in client.read(asked)]
                    return any("cancelled" in each.column("kind").to_pylist() for each in batches)

                wait_until(cancelled, LONG, "the event of the cancel")
                status = client.status()
                for piece in client.locations(Ticket(status.id, len(status.ends), *status.events)):
                    with Path(piece.path).open("r+b") as file:
                        file.seek(piece.position + piece.length - 20)
                        file.write(b"damage")
            again = yard.loop(
                loop.at,
                endpoint=remote.url,
                tls_caFile=str(remote.ca_file),
                subscribe="a,b",
                onCancel="fail",
            )
            with pytest.raises(SpoolFailed, match=r"CORRUPT.*aqueduct spool skip"):
                again.until(8)

    def test_a_query_that_keeps_them_again_leaves_no_cursor_behind(self, yard: Yard) -> None:
        scripts = {"a": Script(5, end="stay"), "b": Script(3, end="stay")}
        with RemoteThread(scripts, yard.home) as remote:
            loop = self.loop(yard, remote, onCancel="fail")
            loop.until(8)
            credentials = Credentials.for_spool(yard.spool)
            with IntakeClient(yard.intake()["flight"], credentials) as client:
                assert list(client.status().events_committed) == ["query.cancels"]
                loop.close()
                again = yard.loop(
                    loop.at, endpoint=remote.url, tls_caFile=str(remote.ca_file), subscribe="a,b"
                )
                again.batch()
                assert client.status().events_committed == {}
