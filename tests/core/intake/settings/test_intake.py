from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.aqueduct.limits import AqueductLimits
from aqueduct_core.intake.aqueduct.settings import AqueductConnect, AqueductIntake, Subscription
from aqueduct_core.intake.settings.intake import AuthSettings, TlsSettings

CREDENTIALS = Credentials.fresh()


def test_settings_come_back_from_their_json() -> None:
    settings = AqueductIntake(
        spool="/spool",
        credentials=CREDENTIALS,
        partitions=3,
        listen="[::1]:4433",
        flight="0.0.0.0:0",
        advertise="host.example",
        tls=TlsSettings(self_signed=("localhost",)),
        auth=AuthSettings("/token", "secret"),
        limits=AqueductLimits(connections=5, handshake_timeout=2.5),
        lease=15.0,
        group_commit=0.01,
        early_data=True,
        name="q",
    )
    line = settings.to_json()
    assert "\n" not in line
    assert AqueductIntake.from_json(line) == settings


def test_a_file_may_name_little_more_than_the_spool(tmp_path: Path) -> None:
    text = json.dumps({"spool": str(tmp_path), "listen": "[::1]:0"})
    settings = AqueductIntake.from_json(text)
    assert settings.credentials == Credentials.for_spool(tmp_path)
    assert settings.lease is None


def test_repr_shows_no_secret() -> None:
    settings = AqueductIntake("/s", CREDENTIALS, listen="[::1]:0", auth=AuthSettings(token="hush"))
    assert "hush" not in repr(settings)
    assert CREDENTIALS.token not in repr(settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"BAD_VALUE.*not a JSON object"),
        ("[]", r"BAD_VALUE.*not a JSON object"),
        ("{}", r"MISSING.*no spool"),
        ('{"spool": "/s", "spol": 1}', r"UNKNOWN.*spol"),
        ('{"spol": "/s"}', r"UNKNOWN.*spol"),
        ('{"spool": "/s", "tls": {"cert": 1}}', r"UNKNOWN.*tls\.cert"),
        ('{"spool": "/s", "v": 2}', r"BAD_VALUE.*v is 2"),
        ('{"spool": "/s", "credentials": {"v": 1}}', r"BAD_VALUE.*wrong kind"),
    ],
)
def test_bad_settings_are_one_clear_error(text: str, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        AqueductIntake.from_json(text)


@pytest.mark.parametrize(
    "given",
    [
        {"partitions": 0},
        {"lease": 0.0},
        {"group_commit": -1.0},
        {"spool_max_bytes": 1},
        {"max_message_bytes": 0},
        {"listen": "4433"},
        {"listen": "host:99999"},
        {"flight": ":4433"},
        {"early_data": "false"},
    ],
)
def test_values_out_of_bounds_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="BAD_VALUE"):
        AqueductIntake("/s", CREDENTIALS, **{"listen": "[::1]:0", **given})


def test_settings_as_version_0_1_wrote_them_are_read() -> None:
    text = """{"v": 1, "spool": "/s", "spoolId": null, "givenOut": [3, 0], "skipGivenOut": false,
    "credentials": {"v": 1, "token": "t", "authority": "", "authorityKey": null}, "partitions": 2,
    "listen": null, "connect": {"endpoints": ["a:1"], "subscriptions": [{"name": "x",
    "headers": [["k", "v"]], "payload": "p"}], "caFile": null, "serverName": null,
    "insecure": false, "tokenFile": null, "token": null, "firstWait": 0.2, "longestWait": 15.0,
    "idleTimeout": 30.0, "bounded": true, "intakes": null, "elsewhere": []}, "flight": "h:0",
    "advertise": null, "tls": {"certFile": null, "keyFile": null, "selfSigned": []},
    "auth": {"tokenFile": null, "token": null, "tokenEnv": null}, "limits": {"connections": 7,
    "connectionsPerAddress": 1024, "handshakes": 512, "handshakesPerNetwork": 128,
    "retry": "auto", "channels": 65536, "attachments": 256, "headerBytes": 64000,
    "memory": 536870912, "connectionShare": 0.5, "handshakeSeconds": 3.0}, "lease": 15.0,
    "groupCommit": 0.02, "groupBytes": 1048576, "spoolMaxBytes": 10737418240, "retention": 0.0,
    "maxMessageBytes": 16777216, "transport": "aioquic", "earlyData": false, "name": "i"}"""
    settings = AqueductIntake.from_json(text)
    assert settings == AqueductIntake(
        "/s",
        Credentials("t", b""),
        given_out=(3, 0),
        connect=AqueductConnect(
            ("a:1",), bounded=True, subscriptions=(Subscription("x", (("k", "v"),), "p"),)
        ),
        flight="h:0",
        limits=AqueductLimits(connections=7, handshake_timeout=3.0),
        lease=15.0,
        name="i",
    )
    assert settings.protocol == "aqueduct"
