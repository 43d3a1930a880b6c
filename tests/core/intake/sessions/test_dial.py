"""An intake process that dials, against remotes over real UDP."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.errors import AuthFailed, ConnectFailed, InvalidOption, TlsFailed
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.flight.subscription_status import SubscriptionStatus
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.aqueduct.limits import AqueductLimits
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.intake.aqueduct.settings import AqueductConnect, Subscription
from tests.support.intake_process import IntakeProcess, Site
from tests.support.remote import RemoteThread, Script, Scripts, payloads
from tests.support.remote_process import RemoteProcess
from tests.support.waiting import LONG, wait_until

SECONDS = LONG
"""For anything that is bound to happen, on a busy machine."""


def connect(remote: RemoteThread | RemoteProcess, *names: str, **given: Any) -> AqueductConnect:
    return AqueductConnect(
        **{
            "endpoints": (remote.endpoint,),
            "subscriptions": tuple(map(Subscription, names)) or (Subscription(),),
            "ca_file": str(remote.ca_file),
            "first_wait": 0.05,
            "longest_wait": 0.5,
            **given,
        }
    )


def until(intake: IntakeProcess, condition: Callable[[IntakeStatus], Any]) -> IntakeStatus:
    """The first status for which ``condition`` holds."""

    def probe() -> IntakeStatus | None:
        status = intake.status()
        return status if condition(status) else None

    return wait_until(probe, SECONDS, "a status as wanted")


def subscriptions(status: IntakeStatus) -> SubscriptionStatus:
    assert status.subscriptions is not None
    return status.subscriptions


def values(intake: IntakeProcess, channel: str) -> list[bytes]:
    return [row["value"] for row in intake.rows() if row["channel"] == channel]


def until_stored(intake: IntakeProcess, channel: str, count: int) -> None:
    wait_until(lambda: len(values(intake, channel)) == count, SECONDS, f"{count} rows")


def holds(intake: IntakeProcess, rows: int) -> bool:
    return sum(intake.status().ends) >= rows


def test_it_reads_all_that_was_asked_for_and_then_is_complete(site: Site, tmp_path: Path) -> None:
    scripts = {
        "a": Script(messages=1000),
        "tree": Script(messages=5, children=3, child_messages=7),
        "lossy": Script(messages=20, mode="unreliable"),
    }
    with (
        RemoteThread(scripts, tmp_path) as remote,
        site.intake(connect=connect(remote, *scripts, bounded=True)) as intake,
    ):
        assert (intake.ready["listen"], intake.ready["fingerprint"]) == ("", None)
        status = until(intake, lambda status: status.complete)
        counts = subscriptions(status)
        assert (counts.requested, counts.open, counts.finished) == (3, 0, 3)
        assert (counts.failed, status.connections, status.channels) == ((), 0, 0)
        assert values(intake, "a") == payloads("a", scripts["a"])
        for i in range(3):
            below = payloads(f"tree/{i}", Script(messages=7))
            assert values(intake, f"tree/{i}") == below
        rows = intake.rows(metadata=True)
        assert len({row["connectionId"] for row in rows}) == 1
        (carrier,) = {row["parentChannelId"] for row in rows if row["channel"] == "tree/0"}
        assert carrier in {row["channelId"] for row in rows if row["channel"] == "tree"}
        assert intake.terminate() == 0


def test_fault_1_a_remote_that_is_killed_and_comes_back_is_dialled_again(
    site: Site, tmp_path: Path
) -> None:
    """It names itself and its numbers, so what it sends again is stored once."""
    options: dict[str, Any] = {"producer": "remote", "sequence_start": 0}
    scripts = {"a": Script(messages=50, end="stay"), "done": Script(messages=3)}
    with RemoteProcess(tmp_path, scripts, **options) as remote:
        dialled = connect(remote, "a", "done", idle_timeout=5.0)
        with site.intake(connect=dialled) as intake:
            until(intake, lambda status: status.counters["rows"] == 53)
            until(intake, lambda status: subscriptions(status).finished == 1)
            for more in (100, 150):
                remote.kill()
                state = until(intake, lambda status: status.connections == 0)
                assert not subscriptions(state).endpoints[0].connected
                remote.restart({"a": Script(messages=more, end="stay"), "done": Script(3)})
                until_stored(intake, "a", more)
            remote.restart({"a": Script(messages=160), "done": Script(messages=3)})
            status = until(intake, lambda status: status.complete)
            assert values(intake, "a") == payloads("a", Script(messages=160))
            assert values(intake, "done") == payloads("done", Script(messages=3))
            assert status.counters["deduped"] == 50 + 100 + 150
            assert {row["producer"] for row in intake.rows()} == {"remote"}


@pytest.mark.long
def test_fault_1_an_intake_that_is_killed_goes_on_where_it_was(site: Site, tmp_path: Path) -> None:
    """The remote sends all of it to each intake that asks; it numbers its messages."""
    scripts = {name: Script(messages=4000, size=1000) for name in ("a", "b")}
    with RemoteThread(scripts, tmp_path, producer="remote", sequence_start=0) as remote:
        settings = connect(remote, *scripts)
        for rows in (500, 2500, 4500):
            with site.intake(connect=settings) as intake:
                wait_until(partial(holds, intake, rows), SECONDS, f"{rows} rows")
                intake.kill()
        with site.intake(connect=settings) as intake:
            until(intake, lambda status: status.complete)
            for name, script in scripts.items():
                assert values(intake, name) == payloads(name, script)


def test_fault_23_a_remote_that_halts_longer_than_the_idle_timeout(
    site: Site, tmp_path: Path
) -> None:
    """Halted before it has sent all, so that the rest comes on another connection."""
    options: dict[str, Any] = {"producer": "remote", "sequence_start": 0}
    script = Script(messages=3000, size=2000)
    scripts = [replace(script, messages=2000, end="stay"), script]
    with RemoteProcess(tmp_path, {"a": scripts}, **options) as remote:
        settings = connect(remote, "a", idle_timeout=0.8)
        with site.intake(connect=settings) as intake:
            until(intake, lambda status: status.counters["rows"] > 100)
            remote.signal(signal.SIGSTOP)
            status = until(intake, lambda status: subscriptions(status).endpoints[0].error)
            (endpoint,) = subscriptions(status).endpoints
            assert (endpoint.connected, endpoint.refused) == (False, False)
            remote.signal(signal.SIGCONT)
            until(intake, lambda status: status.complete)
            assert values(intake, "a") == payloads("a", script)


def test_of_two_endpoints_one_may_be_down(site: Site, tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        silent = f"127.0.0.1:{taken.getsockname()[1]}"
        with RemoteThread({"a": Script(messages=9)}, tmp_path) as remote:
            settings = connect(remote, "a", endpoints=(silent, remote.endpoint))
            with site.intake(
                connect=settings, limits=AqueductLimits(handshake_timeout=2.0)
            ) as intake:
                status = until(intake, lambda status: subscriptions(status).finished == 1)
                assert len(values(intake, "a")) == 9
                status = until(
                    intake, lambda status: subscriptions(status).endpoints[0].attempts > 2
                )
                assert not status.complete
                down, up = subscriptions(status).endpoints
                assert isinstance(down.error, ConnectFailed)
                assert (down.error.name, down.refused) == ("AQUEDUCT_CONNECT.NO_REPLY", False)
                assert silent in str(down.error)
                assert (up.error, up.address) == (None, remote.endpoint)
        log = site.log.read_text()
        assert log.count("NO_REPLY") == 1  # told once, not at each attempt


def test_a_token_that_is_wrong_is_told_and_a_right_one_is_picked_up(
    site: Site, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("wrong-secret\n")
    with RemoteThread({"a": Script(messages=2)}, tmp_path, token="right-secret") as remote:
        settings = connect(remote, "a", token_file=str(token))
        with site.intake(connect=settings) as intake:
            status = until(intake, lambda status: subscriptions(status).endpoints[0].refused)
            assert isinstance(subscriptions(status).endpoints[0].error, AuthFailed)
            token.write_text("right-secret\n")
            until(intake, lambda status: status.complete)
            assert len(values(intake, "a")) == 2
            stored = json.dumps(intake.rows(metadata=True), default=str)
    assert "secret" not in site.log.read_text() + stored


def test_a_remote_that_is_not_trusted_is_told(site: Site, tmp_path: Path) -> None:
    with RemoteThread({"a": Script()}, tmp_path) as remote:
        settings = connect(remote, "a", ca_file=str(tmp_path / "cert.pem"))
        with site.intake(connect=settings) as intake:
            status = until(intake, lambda status: subscriptions(status).endpoints[0].refused)
            assert isinstance(subscriptions(status).endpoints[0].error, TlsFailed)
            assert remote.connections == 0


def test_what_cannot_be_read_is_an_error_at_the_start(site: Site, tmp_path: Path) -> None:
    settings = AqueductConnect(endpoints=("127.0.0.1:9",), ca_file="/nowhere/ca.pem")
    with pytest.raises(InvalidOption, match=r"/nowhere/ca\.pem"), site.intake(connect=settings):
        pass
    settings = AqueductConnect(endpoints=("127.0.0.1:9",), insecure=True, token_file="/nowhere/t")
    with pytest.raises(AuthFailed, match="/nowhere/t"), site.intake(connect=settings):
        pass
    assert not site.spool.exists()


def test_a_remote_that_does_not_wait_for_the_last_acks(site: Site, tmp_path: Path) -> None:
    """It finishes and is gone: nothing is missing, so nothing is asked for again."""
    with (
        RemoteThread({"a": Script(messages=5, end="hurry")}, tmp_path) as remote,
        site.intake(connect=connect(remote, "a", bounded=True), group_commit=0.4) as intake,
    ):
        status = until(intake, lambda status: status.complete)
        assert subscriptions(status).failures == 0
        assert values(intake, "a") == payloads("a", Script(messages=5))
        assert len(remote.requests) == 1


def test_events_tell_the_life_of_what_was_asked_for(site: Site, tmp_path: Path) -> None:
    scripts: Scripts = {
        "a": Script(messages=5, children=1, child_messages=2),
        "cut": [Script(messages=2, end="cancel"), Script(messages=4)],
    }
    with (
        RemoteThread(scripts, tmp_path, producer="remote") as remote,
        site.intake(connect=connect(remote, *scripts)) as intake,
        intake.client() as client,
    ):
        status = until(intake, lambda status: status.complete)
        partitions = len(status.ends)
        start, end = status.events
        events = [
            event
            for batch in client.read(Ticket(status.id, partitions, start, end))
            for event in ROWS.expand_events(batch, partitions, start).to_pylist()
        ]
    told: dict[str | None, list[str]] = {}
    for event in events:
        told.setdefault(event["channel"], []).append(event["kind"])
    assert told == {
        None: ["connected", "disconnected"],
        "a": ["opened", "finished"],
        "a/0": ["opened", "finished"],
        "cut": ["opened", "cancelled", "opened", "finished"],
    }
    counts = {event["channel"]: event["counts"] for event in events if event["kind"] == "finished"}
    sent = {channel: each["reliableSent"] for channel, each in counts.items()}
    assert sent == {"a": 5, "a/0": 2, "cut": 4}
    assert all(each["reliableStored"] == each["reliableSent"] for each in counts.values())
    assert {event["producer"] for event in events} == {"remote"}


def test_a_bounded_read_names_the_channel_that_did_not_finish(site: Site, tmp_path: Path) -> None:
    scripts = {
        "good": Script(messages=3),
        "cut": Script(messages=4, end="cancel"),
        "gone": Script(end="drop"),
    }
    with RemoteThread(scripts, tmp_path) as remote:
        settings = connect(remote, *scripts, bounded=True)
        with site.intake(connect=settings) as intake:
            status = until(intake, lambda status: subscriptions(status).failures == 2)
            ends = {failure.channel: failure.end for failure in subscriptions(status).failed}
            assert ends == {"cut": "cancelled", "gone": "cancelled"}
            until(intake, lambda status: subscriptions(status).finished == 1)
            assert not intake.status().complete
            assert [request.name for request in remote.requests].count("cut") == 1


def test_a_finish_above_what_came_never_completes(site: Site, tmp_path: Path) -> None:
    """Hostile: the finish names one message more than were sent."""
    with (
        RemoteThread({"over": Script(messages=3, end="overcount")}, tmp_path) as remote,
        site.intake(connect=connect(remote, "over", bounded=True)) as intake,
    ):
        until(intake, lambda status: status.counters["rows"] == 3)
        remote.vanish()
        status = until(intake, lambda status: subscriptions(status).failures == 1)
        assert subscriptions(status).failed[0][:2] == ("over", "connection lost")
        assert not status.complete


def test_a_finish_below_what_came_ends_that_connection(site: Site, tmp_path: Path) -> None:
    with (
        RemoteThread({"under": Script(messages=3, end="undercount")}, tmp_path) as remote,
        site.intake(connect=connect(remote, "under", bounded=True)) as intake,
    ):
        status = until(intake, lambda status: subscriptions(status).failures == 1)
        assert "a finish below a message" in subscriptions(status).failed[0].reason
        assert not status.complete


@pytest.mark.parametrize("change", [{"payload": "since 2026"}, {"headers": (("depth", "9"),)}])
def test_another_request_under_a_name_that_has_finished_is_asked(
    site: Site, tmp_path: Path, change: dict[str, Any]
) -> None:
    scripts = {"a": Script(3), "b": Script(2)}
    with RemoteThread(scripts, tmp_path) as remote:
        for given, count in (({}, 1), (change, 2), (change, 2)):
            asked = (Subscription("a", **given), Subscription("b"))
            with site.intake(connect=connect(remote, subscriptions=asked)) as intake:
                until(intake, lambda status: subscriptions(status).finished == 2)
                names = [request.name for request in remote.requests]
                assert (names.count("a"), names.count("b")) == (count, 1)
                assert intake.terminate() == 0


def test_what_has_finished_is_not_asked_for_after_a_restart(site: Site, tmp_path: Path) -> None:
    scripts = {"a": Script(messages=5), "b": Script(messages=2, end="stay")}
    with RemoteThread(scripts, tmp_path) as remote:
        settings = connect(remote, "a", "b")
        with site.intake(connect=settings) as intake:
            until(intake, lambda status: subscriptions(status).finished == 1)
            wait_until((site.spool / "finished.json").exists, SECONDS, "the file")
            intake.kill()
        with site.intake(connect=settings) as intake:
            until(intake, lambda status: subscriptions(status).open == 1)
            until(intake, lambda status: status.counters["rows"] == 2)
            assert len(values(intake, "a")) == 5
            assert [request.name for request in remote.requests].count("a") == 1


def test_fault_2_sigterm_drains_an_intake_that_dials(site: Site, tmp_path: Path) -> None:
    with RemoteThread({"a": Script(messages=100, end="stay")}, tmp_path) as remote:
        with site.intake(connect=connect(remote, "a"), group_commit=0.2) as intake:
            until(intake, lambda status: status.counters["rows"] == 100)
            intake.signal(signal.SIGTERM)
            assert intake.wait() == 0
            wait_until(lambda: remote.acked, SECONDS, "the end of the connection")
            assert remote.acked == {"a": 100}
        with site.intake(connect=connect(remote, "a")) as intake:
            assert len(values(intake, "a")) >= 100


def test_fault_15_a_full_spool_holds_the_remote_back_until_there_is_room(
    site: Site, tmp_path: Path
) -> None:
    script = Script(messages=60, size=250_000)
    with RemoteThread({"a": script}, tmp_path) as remote:
        settings = connect(remote, "a")
        with (
            site.intake(connect=settings, spool_max_bytes=2_000_000, partitions=1) as intake,
            intake.client() as client,
        ):

            def stalled() -> IntakeStatus | None:
                known = client.status()
                return known if client.wait(known.ends, 0.5).ends == known.ends else None

            until(intake, lambda status: status.full)
            full = wait_until(stalled, SECONDS, "a remote that waits")
            assert (full.full, full.complete) == (True, False)
            assert full.bytes < 5_000_000
            assert full.ends[0] < 40
            seen = 0

            def read_on() -> bool:
                nonlocal seen
                status = client.status()
                for batch in client.read(Ticket(status.id, 0, seen, status.ends[0])):
                    stored = [bytes(value).rstrip() for value in batch.column("value").to_pylist()]
                    assert stored == [b"a %d" % (seen + i) for i in range(len(stored))]
                    seen += len(stored)
                client.commit("query", [seen])
                return status.complete

            wait_until(read_on, SECONDS, "the end")
            assert seen == 60
            assert client.status().starts[0] > 0
            assert remote.acked == {"a": 60}


def test_it_ends_while_nobody_answers(site: Site, tmp_path: Path) -> None:
    settings = AqueductConnect(endpoints=("127.0.0.1:9", "127.0.0.1:10"), insecure=True)
    with site.intake(connect=settings) as intake:
        until(intake, lambda status: subscriptions(status).endpoints[0].attempts > 0)
        assert intake.terminate() == 0
