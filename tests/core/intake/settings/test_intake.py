from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.settings.intake import AqueductIntake, AuthSettings, TlsSettings
from aqueduct_core.intake.settings.service import AqueductLimits

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
