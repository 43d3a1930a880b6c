"""What an intake is told, as the options of its query say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.errors import AuthFailed
from aqueduct_core.flight.credentials import Credentials
from aqueduct_spark.formats.aqueduct.format import AqueductFormat
from aqueduct_spark.formats.aqueduct.options import AQUEDUCT_OPTIONS
from aqueduct_spark.intakes.launch_settings import launch_order
from aqueduct_spark.options.read import StreamReadOptions


def test_an_intake_is_told_its_limits_and_where_it_listens(tmp_path: Path) -> None:
    options = StreamReadOptions.parse(
        {
            "listen": "127.0.0.1:4433",
            "spool": str(tmp_path),
            "numIntakes": "3",
            "limits.connections": "7",
            "limits.headerBytes": "2k",
            "limits.handshakeTimeout": "3s",
            "earlyData": "true",
        },
        AQUEDUCT_OPTIONS,
    )
    settings = launch_order(AqueductFormat(), options, 2, Credentials.fresh(), "h:1", None).settings
    assert (settings.listen, settings.connect) == ("127.0.0.1:4435", None)
    assert settings.limits.connections == 7
    assert settings.limits.header_bytes == 2048
    assert settings.limits.handshake_timeout == 3
    assert settings.early_data


def test_an_intake_is_told_whom_to_dial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_TOKEN", "s3cret")
    options = StreamReadOptions.parse(
        {
            "endpoint": "aqueduct://a:1,b:2,c:3",
            "spool": str(tmp_path),
            "numIntakes": "2",
            "subscribe": "x,y",
            "subscribePayload": "give {name}",
            "tls.caFile": "/ca.pem",
            "auth.tokenEnv": "THE_TOKEN",
        },
        AQUEDUCT_OPTIONS,
    )
    orders = [
        launch_order(AqueductFormat(), options, i, Credentials.fresh(), "h:1", None)
        for i in range(2)
    ]
    told = [order.settings.connect for order in orders]
    assert told[0] is not None
    assert told[1] is not None
    # Which of them is its own is settled beside the spools.
    assert (told[0].endpoints, told[0].intakes) == (("a:1", "b:2", "c:3"), 2)
    assert told[0] == told[1]
    assert [s.request_payload for s in told[0].subscriptions] == [b"give x", b"give y"]
    assert (told[0].ca_file, told[0].token) == ("/ca.pem", "s3cret")
    assert "s3cret" not in repr(orders)
    # What it dials is not on this machine, so neither are its readers.
    assert orders[0].settings.flight == "0.0.0.0:0"


def test_a_token_variable_must_be_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options = StreamReadOptions.parse(
        {"listen": "127.0.0.1:0", "spool": str(tmp_path), "auth.tokenEnv": "THE_TOKEN"},
        AQUEDUCT_OPTIONS,
    )
    monkeypatch.delenv("THE_TOKEN", raising=False)
    with pytest.raises(AuthFailed, match="THE_TOKEN"):
        launch_order(AqueductFormat(), options, 0, Credentials.fresh(), "h:1", None)
    monkeypatch.setenv("THE_TOKEN", "s3cret")
    order = launch_order(AqueductFormat(), options, 0, Credentials.fresh(), "h:1", None)
    assert order.settings.auth.token == "s3cret"
    assert "s3cret" not in repr(order)
