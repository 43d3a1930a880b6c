"""Nothing of a spool is for other users of the host, whatever the umask."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from aqueduct_core.aio.producer import Producer
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.__main__ import main
from aqueduct_core.intake.aqueduct.settings import AqueductConnect, Subscription
from aqueduct_core.intake.config_file import write_access
from aqueduct_core.primitives.atomic_file import make_directories
from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.skips import Skip, save_skips
from aqueduct_spark.intakes.process import LOG_FILE, start_intake
from tests.core.intake.lives import run
from tests.support.intake_process import Site
from tests.support.remote import RemoteThread, Script
from tests.support.waiting import LONG, ended, wait_until


@pytest.fixture(autouse=True)
def permissive() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def permissive_main() -> int:
    os.umask(0)
    return main()


def modes(directory: Path) -> dict[str, int]:
    """Of everything in a directory and of itself, by relative path."""
    return {
        str(path.relative_to(directory)): stat.S_IMODE(path.stat().st_mode)
        for path in (directory, *directory.rglob("*"))
    }


def open_to_others(directory: Path) -> dict[str, str]:
    found = modes(directory)
    wanted = {name: 0o700 if (directory / name).is_dir() else 0o600 for name in found}
    return {name: oct(mode) for name, mode in found.items() if mode != wanted[name]}


def test_a_spool_that_was_used_in_every_way(tmp_path: Path) -> None:
    """By an intake that a query launched and by some that dialled, with cursors and a loss."""
    site, root, other = Site(tmp_path), tmp_path / "spool", tmp_path / "other"

    async def produce(url: str) -> None:
        async with Producer(url, producer="p", tls=site.client_tls) as producer:
            channel = producer.channel("c")
            for number in range(100):
                await channel.send(b"%d" % number)
            await channel.finish()

    launched = start_intake(site.settings(), LONG)
    try:
        run(produce(f"aqueduct://{launched.listen}"))
        with IntakeClient(launched.flight, site.credentials.for_clients()) as client:
            client.hold("query", "here")
            client.commit("query", client.status().ends, owner="here")
        assert any(name.endswith("-wal") for name in modes(root))
        assert open_to_others(root) == {}
    finally:
        os.kill(launched.pid, signal.SIGTERM)
        ended(launched.pid, LONG)
    with RemoteThread({"a": Script(messages=10)}, tmp_path) as remote:
        connect = AqueductConnect(
            endpoints=(remote.endpoint,),
            subscriptions=(Subscription("a"),),
            ca_file=str(remote.ca_file),
            bounded=True,
            intakes=2,
            elsewhere=(),
        )
        for number in (0, 1):
            dialling = site.settings(spool=str(other / f"intake-{number}"), connect=connect)
            with site.intake(permissive_main, **msgspec.structs.asdict(dialling)) as intake:
                if number == 0:
                    wait_until(lambda: intake.status().complete, LONG, "all channels")
                assert intake.terminate() == 0
    save_skips(site.spool, "id", [Skip(0, 1, 2, "a test", 0.0)], Disk())
    write_access(root, site.credentials)
    for name in (".keys", "intake-token", f"intake-0/{LOG_FILE}", "intake-0/status.json"):
        assert name in modes(root)
    assert "endpoints" in modes(other)
    assert open_to_others(root) == open_to_others(other) == {}


def test_directories_that_are_missing_are_made_and_others_stay(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_directories(tmp_path / "a" / "b")
    make_directories(tmp_path / "a" / "b")
    assert modes(tmp_path) == {".": 0o755, "a": 0o700, "a/b": 0o700}
    Credentials.for_spool(tmp_path / "c" / "d")
    assert open_to_others(tmp_path / "c") == {}
