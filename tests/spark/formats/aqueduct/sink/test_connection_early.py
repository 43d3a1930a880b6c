"""The sink with early data: what it says of rows still rests on what the receiver says."""

from __future__ import annotations

import stat
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from aqueduct_core.aio.serve import bearer
from aqueduct_core.errors import AqueductError, AuthFailed, ConnectFailed
from aqueduct_core.transport.sessions import SessionTable
from aqueduct_core.transport.settings import ListenLimits
from aqueduct_spark.write import worker
from tests.spark.plain_peer import Peer, listening
from tests.spark.write.sinking import Attempt, numbered, options
from tests.support.event_loop import eventually, in_loop, server_tls

EARLY = ListenLimits(early_data=True)
KNOWS = (("deduplicates", "sequence"),)


def early(peer: Peer) -> list[bool]:
    """Of each connection, whether its early data was taken."""
    return [each._driver.link.early_accepted is True for each in peer.connections]


@pytest.mark.parametrize("forgets", [False, True])
def test_a_worker_that_is_started_again_resumes(tmp_path: Path, forgets: bool) -> None:
    """``forgets``: the receiver knows its sessions no more, as when it was started again."""
    file = tmp_path / "made" / "sessions-aqueduct.json"

    @in_loop
    async def main() -> None:
        peer = Peer()
        async with listening(peer, server_tls(), headers=KNOWS, limits=EARLY) as server:
            wanted = options(peer.url, earlyData="true", sessionDirectory=str(file.parent))
            for attempt in range(3):
                worker._sessions_in.cache_clear()  # as another process
                counts = await Attempt(wanted, batch=attempt).run(
                    [numbered(10, start=10 * attempt)]
                )
                assert (counts.sent, counts.acked) == (10, 10)
                await eventually(lambda: file.exists() and b"state" in file.read_bytes())
                if forgets:
                    server.listener._sessions = SessionTable(16)
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert peer.values("c0") == [b"%d" % row for row in range(30)]
            # The receiver said that it knows numbers, and that was waited for.
            assert {headers for heard in peer.heard for _, headers in heard.messages} == {()}
        assert early(peer) == [False, not forgets, not forgets]

    main()


@pytest.mark.parametrize(("there", "error"), [(False, ConnectFailed), (True, AuthFailed)])
def test_a_receiver_that_is_gone_or_refuses_is_named_before_a_row_is_sent(
    tmp_path: Path, there: bool, error: type[AqueductError]
) -> None:
    file = tmp_path / "sessions-aqueduct.json"

    @in_loop
    async def main() -> None:
        peer, other = Peer(), Peer()
        async with listening(peer, server_tls(), limits=EARLY):
            wanted = options(peer.url, earlyData="true", sessionDirectory=str(tmp_path))
            await Attempt(wanted, token="old").run([numbered(1)])
            await eventually(lambda: file.exists() and b"state" in file.read_bytes())
        async with AsyncExitStack() as stack:
            if there:
                await stack.enter_async_context(
                    listening(
                        other, server_tls(), port=peer.port, limits=EARLY, authorize=bearer("new")
                    )
                )
            with pytest.raises(error):
                await Attempt(wanted, token="old").run([numbered(1)])
        assert other.connections == []
        if not there:  # it was an early dial, which used the session up
            await eventually(lambda: b"state" not in file.read_bytes())

    main()
