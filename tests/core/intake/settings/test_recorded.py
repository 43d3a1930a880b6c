"""With which listener and authentication a spool is served, on values and with real processes."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aqueduct_core.cli.main import main
from aqueduct_core.errors import ConnectFailed, InvalidOption, SpoolFailed
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.aqueduct.settings import AqueductConnect, AqueductIntake
from aqueduct_core.intake.settings.intake import AuthSettings, TlsSettings
from aqueduct_core.intake.settings.recorded import (
    FILE,
    admission_of,
    check_recorded,
    forget,
    record,
    recorded_in,
)
from aqueduct_core.primitives import json_file
from tests.support.intake_process import Site
from tests.support.waiting import LONG

FILES = TlsSettings("/tls/cert.pem", "/tls/key.pem")
TOKENS = AuthSettings(token_file="/tokens")


def settings(directory: Path, **given: Any) -> AqueductIntake:
    return AqueductIntake(
        **{
            "spool": str(directory),
            "credentials": Credentials("t", b"", None),
            "tls": FILES,
            "auth": TOKENS,
            **({} if "connect" in given else {"listen": "127.0.0.1:4433"}),
            **given,
        }
    )


DIALS = {"connect": AqueductConnect(("a:1",)), "tls": TlsSettings(), "auth": AuthSettings()}

OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "no token": ({"auth": AuthSettings()}, "auth.tokenFile is not given"),
    "other tokens": ({"auth": AuthSettings("/mine")}, "auth.tokenFile is '/mine'"),
    "a token of the driver": (
        {"auth": AuthSettings(token="secret", token_env="TOKEN")},
        "auth.tokenEnv is 'TOKEN'",
    ),
    "self-signed": ({"tls": TlsSettings(self_signed=("localhost",))}, "tls.selfSigned is 'true'"),
    "another port": ({"listen": "127.0.0.1:4434"}, "listen is '127.0.0.1:4434'"),
    "any port": ({"listen": "127.0.0.1:0"}, "listen is '127.0.0.1:0'"),
    "it dials": (DIALS, "auth.tokenFile is not given"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_fault_41_other_settings_are_refused_by_name(tmp_path: Path, case: str) -> None:
    given, words = OTHERS[case]
    record(settings(tmp_path))
    with pytest.raises(InvalidOption, match="CONFLICT") as refused:
        check_recorded(settings(tmp_path, **given))
    text = str(refused.value)
    assert words in text
    assert f"aqueduct spool settings {tmp_path} --forget" in text
    assert "secret" not in text + (tmp_path / FILE).read_text()
    with pytest.raises(InvalidOption, match="CONFLICT"):
        record(settings(tmp_path, **given))
    check_recorded(settings(tmp_path))
    assert forget(tmp_path)
    assert not forget(tmp_path)
    check_recorded(settings(tmp_path, **given))


@pytest.mark.parametrize(
    "renewed",
    [
        {},
        {"tls": TlsSettings("/tls/2027/cert.pem", "/tls/2027/key.pem")},
        {"spool_max_bytes": 1 << 30, "lease": 3.0, "max_message_bytes": 1 << 10},
    ],
)
def test_what_changes_in_the_course_of_things_is_no_other_setting(
    tmp_path: Path, renewed: dict[str, Any]
) -> None:
    record(settings(tmp_path))
    first = recorded_in(tmp_path)
    check_recorded(settings(tmp_path, **renewed))
    record(settings(tmp_path, **renewed))
    assert recorded_in(tmp_path) == first


def test_any_port_that_was_settled_is_any_port(tmp_path: Path) -> None:
    anywhere = settings(tmp_path, listen="127.0.0.1:0")
    record(anywhere)
    check_recorded(settings(tmp_path))
    with pytest.raises(InvalidOption, match=r"listen is '0\.0\.0\.0:4433'"):
        check_recorded(settings(tmp_path, listen="0.0.0.0:4433"))
    with pytest.raises(InvalidOption, match=r"auth\.tokenFile is not given"):
        check_recorded(settings(tmp_path, auth=AuthSettings()))


def test_an_intake_that_dials_may_ask_for_more_and_must_verify_as_before(tmp_path: Path) -> None:
    verifying = settings(tmp_path, **DIALS)
    record(verifying)
    assert recorded_in(tmp_path) == {}
    more = AqueductConnect(("a:1", "b:2"), token_file="/t", ca_file="/ca.pem")
    check_recorded(replace(verifying, connect=more))
    with pytest.raises(InvalidOption, match=r"tls\.insecure is 'true'"):
        check_recorded(replace(verifying, connect=AqueductConnect(("a:1",), insecure=True)))
    with pytest.raises(InvalidOption, match="listen"):
        check_recorded(settings(tmp_path, auth=AuthSettings()))


def test_one_more_intake_of_a_query_lets_nobody_in_whom_the_others_refuse(tmp_path: Path) -> None:
    for name in ("intake-0", "intake-1", "alone"):
        (tmp_path / name).mkdir()
    record(settings(tmp_path / "intake-0", lease=9.0))
    second = settings(tmp_path / "intake-1", lease=9.0, listen="127.0.0.1:4434")
    check_recorded(second)
    for given in ({"auth": AuthSettings()}, {"tls": TlsSettings(self_signed=("localhost",))}):
        with pytest.raises(InvalidOption, match=rf"CONFLICT.*{tmp_path} --forget"):
            check_recorded(replace(second, **given))
        check_recorded(replace(second, **given, lease=None))  # on its own, whatever its name is
        check_recorded(replace(second, **given, spool=str(tmp_path / "alone")))
    with pytest.raises(InvalidOption, match="CONFLICT"):
        check_recorded(settings(tmp_path / "intake-1", lease=9.0, **DIALS))


def test_where_the_adapter_is_found_is_nobodys_concern(tmp_path: Path) -> None:
    """A protocol may move, or be built in later; another one is refused by the layout."""
    record(settings(tmp_path, protocol="aqueduct"))
    check_recorded(settings(tmp_path, protocol="aqueduct_core.intake.aqueduct.adapter:ADAPTER"))
    record(settings(tmp_path, protocol="elsewhere:ADAPTER"))
    assert recorded_in(tmp_path) == admission_of(settings(tmp_path))


def test_what_is_settled_names_no_secret() -> None:
    found = admission_of(settings(Path("/s"), auth=AuthSettings(token="s3cret", token_env="T")))
    assert found == {"listen": "127.0.0.1:4433", "auth.tokenEnv": "T"}


@pytest.mark.parametrize("text", ["", "[]", '{"v": 1, "settings": []}'])
def test_a_damaged_file_lets_nobody_in(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(SpoolFailed, match="CORRUPT"):
        check_recorded(settings(tmp_path))


def test_fault_41_no_intake_starts_with_less_than_its_spool_was_served_with(
    site: Site, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("of-producers\n")
    guarded = AuthSettings(token_file=str(token))
    with site.intake(auth=guarded) as intake:
        assert intake.status().settings == {"listen": "127.0.0.1:0", "auth.tokenFile": str(token)}
        intake.kill()
    for given in (
        {},
        {"auth": AuthSettings(token="x")},
        {"auth": guarded, "listen": "0.0.0.0:0"},
    ):
        with pytest.raises(InvalidOption, match="CONFLICT"), site.intake(**given):
            pass
    with site.intake(auth=guarded) as intake:
        assert intake.status().epoch > 1
    assert forget(site.spool)
    with pytest.raises(InvalidOption, match="CONFLICT"), site.intake():
        pass  # what its query's intakes have in common is kept, too
    assert main(["spool", "settings", str(site.spool.parent), "--forget"]) == 0
    with site.intake() as intake:
        assert intake.status().settings == {"listen": "127.0.0.1:0"}


def test_settings_that_do_not_work_are_not_kept(site: Site, tmp_path: Path) -> None:
    with pytest.raises(ConnectFailed), site.intake(listen="192.0.2.1:4433"):
        pass
    assert recorded_in(site.spool) is None
    with site.intake() as intake:
        assert intake.status().settings == {"listen": "127.0.0.1:0"}


class Turns:
    """Has several calls do one operation on files at a time, in the order of a schedule."""

    def __init__(self) -> None:
        self._caller = threading.local()

    def step(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def one(*given: Any) -> Any:
            caller: _Caller | None = getattr(self._caller, "value", None)
            if caller is not None:
                caller.rest()
            return operation(*given)

        return one

    def run(
        self, calls: Sequence[Callable[[], None]], schedule: Sequence[int]
    ) -> list[Exception | None]:
        """What came of each; those that the schedule does not end run one after the other."""
        callers = [_Caller() for _ in calls]
        for caller, call in zip(callers, calls, strict=True):
            threading.Thread(target=self._run, args=(caller, call), daemon=True).start()
            caller.await_rest()
        for number in [*schedule, *(n for n in range(len(calls)) for _ in range(20))]:
            if not callers[number].over:
                callers[number].go.release()
                callers[number].await_rest()
        assert all(caller.over for caller in callers)
        return [caller.error for caller in callers]

    def _run(self, caller: _Caller, call: Callable[[], None]) -> None:
        self._caller.value = caller
        try:
            call()
        except Exception as error:
            caller.error = error
        caller.over = True
        caller.rests.release()


class _Caller:
    def __init__(self) -> None:
        self.go, self.rests = threading.Semaphore(0), threading.Semaphore(0)
        self.over = False
        self.error: Exception | None = None

    def rest(self) -> None:
        self.rests.release()
        self.go.acquire()

    def await_rest(self) -> None:
        assert self.rests.acquire(timeout=LONG)


def started(settings: AqueductIntake) -> None:
    """What a start does, but for the listener that opens in between."""
    check_recorded(settings)
    record(settings)


PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one directory": ({}, {"auth": AuthSettings()}),
    "one directory, alone": ({"lease": None}, {"lease": None, "auth": AuthSettings()}),
    "two intakes": ({}, {"spool": "intake-1", "auth": AuthSettings()}),
    "two intakes, one dials": ({}, {"spool": "intake-1", **DIALS}),
    "other addresses": ({}, {"listen": "127.0.0.1:4434"}),
}


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """What is on the disk after a crash is not the question here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    turns = Turns()
    for name in ("load", "save", "create"):
        monkeypatch.setattr(json_file, name, turns.step(getattr(json_file, name)))
    return turns


SCHEDULES = [[int(place in places) for place in range(10)] for places in combinations(range(10), 5)]


@pytest.mark.parametrize("pair", PAIRS)
def test_fault_41_of_two_that_start_at_a_time_one_is_refused(
    tmp_path: Path, turns: Turns, pair: str
) -> None:
    """Wherever one of them is when the other one goes on: two queries on a fresh spool, or an owner
    that was halted and its successor."""
    wins: Counter[int] = Counter()
    for round, schedule in enumerate(SCHEDULES):
        both = []
        for given in PAIRS[pair]:
            directory = tmp_path / str(round) / str(given.get("spool", "intake-0"))
            directory.mkdir(parents=True, exist_ok=True)
            both.append(settings(directory, **{"lease": 9.0, **given, "spool": str(directory)}))
        found = turns.run([partial(started, one) for one in both], schedule)
        assert sum(each is None for each in found) == 1, (schedule, found)
        winner = found.index(None)
        refused = found[1 - winner]
        assert isinstance(refused, InvalidOption)
        assert refused.subclass == "CONFLICT"
        started(both[winner])
        with pytest.raises(InvalidOption, match="CONFLICT"):
            check_recorded(both[1 - winner])
        wins[winner] += 1
    assert set(wins) == {0, 1}


def test_two_of_one_query_that_start_at_a_time_both_serve(tmp_path: Path, turns: Turns) -> None:
    for round, schedule in enumerate(SCHEDULES):
        both = []
        for number in range(2):
            directory = tmp_path / str(round) / f"intake-{number}"
            directory.mkdir(parents=True)
            listen = f"127.0.0.1:{4433 + number}"
            both.append(settings(directory, lease=9.0, listen=listen))
        assert turns.run([partial(started, one) for one in both], schedule) == [None, None]
