"""With which listener and authentication a spool is served, on values and with real processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.errors import ConnectFailed, InvalidOption, SpoolFailed
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.connect_settings import ConnectSettings
from aqueduct_core.intake.recorded_settings import (
    FILE,
    admission_of,
    check_recorded,
    forget,
    record,
    recorded_in,
)
from aqueduct_core.intake.settings import AuthSettings, IntakeSettings, TlsSettings
from tests.core.intake.processes import Site

FILES = TlsSettings("/tls/cert.pem", "/tls/key.pem")
TOKENS = AuthSettings(token_file="/tokens")


def settings(directory: Path, **given: Any) -> IntakeSettings:
    return IntakeSettings(
        **{
            "spool": str(directory),
            "credentials": Credentials("t", b"", None),
            "tls": FILES,
            "auth": TOKENS,
            **({} if "connect" in given else {"listen": "127.0.0.1:4433"}),
            **given,
        }
    )


DIALS = {"connect": ConnectSettings(("a:1",)), "tls": TlsSettings(), "auth": AuthSettings()}

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
    record(settings(tmp_path, **given))  # those that are kept stay
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
    check_recorded(settings(tmp_path, **renewed))


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
    more = ConnectSettings(("a:1", "b:2"), token_file="/t", ca_file="/ca.pem")
    check_recorded(replace(verifying, connect=more))
    with pytest.raises(InvalidOption, match=r"tls\.insecure is 'true'"):
        check_recorded(replace(verifying, connect=ConnectSettings(("a:1",), insecure=True)))
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
    with site.intake() as intake:
        assert intake.status().settings == {"listen": "127.0.0.1:0"}


def test_settings_that_do_not_work_are_not_kept(site: Site, tmp_path: Path) -> None:
    with pytest.raises(ConnectFailed), site.intake(listen="192.0.2.1:4433"):
        pass
    assert recorded_in(site.spool) is None
    with site.intake() as intake:
        assert intake.status().settings == {"listen": "127.0.0.1:0"}
