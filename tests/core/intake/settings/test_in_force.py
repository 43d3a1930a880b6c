"""What an intake says it was told: each setting is there, or is looked after elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import fields, replace

from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.aqueduct.limits import AqueductLimits
from aqueduct_core.intake.aqueduct.settings import AqueductConnect, AqueductIntake, Subscription
from aqueduct_core.intake.settings.in_force import differing, in_force
from aqueduct_core.intake.settings.intake import AuthSettings, TlsSettings
from aqueduct_core.intake.settings.service import HttpSettings

LISTENS = AqueductIntake("/s", Credentials("t", b"", None), listen="h:1")
DIALS = replace(
    LISTENS,
    listen=None,
    connect=AqueductConnect(("a:1", "b:2"), subscriptions=(Subscription("x"),)),
)

TOLD: dict[str, tuple[Any, str]] = {
    "group_commit": (0.5, "groupCommit"),
    "spool_max_bytes": (1 << 30, "spoolMaxBytes"),
    "retention": (5.0, "retention"),
    "max_message_bytes": (1 << 10, "maxMessageBytes"),
    "max_datagram_bytes": (1_452, "maxDatagramBytes"),
    "transport": ("qh3", "transport"),
    "early_data": (True, "earlyData"),
    "log_format": ("json", "logFormat"),
    "http": (HttpSettings(listen="127.0.0.1:1"), "http.listen"),
    "tls": (TlsSettings(cert_file="/c"), "tls.certFile"),
    "auth": (AuthSettings(token="s3cret", token_env="T"), "auth.tokenEnv"),
    "limits.connections": (3, "limits.connections"),
    "limits.connections_per_address": (3, "limits.connectionsPerAddress"),
    "limits.handshakes": (3, "limits.handshakes"),
    "limits.handshakes_per_network": (3, "limits.handshakesPerNetwork"),
    "limits.retry": ("always", "limits.retry"),
    "limits.channels": (3, "limits.channels"),
    "limits.attachments": (3, "limits.attachments"),
    "limits.header_bytes": (3000, "limits.headerBytes"),
    "limits.memory": (1 << 30, "limits.memory"),
    "limits.connection_share": (0.25, "limits.connectionShare"),
    "limits.handshake_timeout": (3.0, "limits.handshakeTimeout"),
    "connect.endpoints": (("a:1", "c:3"), "endpoint"),
    "connect.subscriptions": ((Subscription("x"), Subscription("y")), "subscribe"),
    "connect.ca_file": ("/ca", "tls.caFile"),
    "connect.server_name": ("n", "tls.serverName"),
    "connect.token_file": ("/t", "auth.tokenFile"),
    "connect.token": ("s3cret", "auth.tokenEnv"),
}

ELSEWHERE = {
    "spool": "where it is",
    "spool_id": "where it is",
    "given_out": "looked at once, when it starts",
    "skip_given_out": "looked at once, when it starts",
    "credentials": "whoever lacks them cannot ask",
    "partitions": "of the spool (intake.json)",
    "listen": "recorded with the spool",
    "flight": "found by asking",
    "advertise": "found by asking",
    "lease": "renewed by each query with its own",
    "group_bytes": "no option",
    "share_port": "no option",
    "name": "for logs",
    "protocol": "recorded with the spool",
    "connect.insecure": "recorded with the spool",
    "connect.first_wait": "no option",
    "connect.longest_wait": "no option",
    "connect.idle_timeout": "no option",
    "connect.bounded": "of reads that end",
    "connect.elsewhere": "what other intakes have (endpoint claims)",
    "connect.intakes": "how those are shared that nobody dials (endpoint claims)",
}


def changed(setting: str, value: Any) -> tuple[AqueductIntake, AqueductIntake]:
    part, _, name = setting.rpartition(".")
    if not part:
        return LISTENS, replace(LISTENS, **{name: value})
    before = DIALS if part == "connect" else LISTENS
    return before, replace(before, **{part: replace(getattr(before, part), **{name: value})})


@pytest.mark.parametrize("setting", TOLD)
def test_a_change_is_told_by_its_option_and_no_secret_is(setting: str) -> None:
    value, option = TOLD[setting]
    before, after = map(in_force, changed(setting, value))
    assert differing(before, before) == []
    assert differing(after, before) == differing(before, after) == [option]
    assert "s3cret" not in json.dumps(after)


def test_every_setting_is_told_or_looked_after_elsewhere() -> None:
    parts = {"limits": AqueductLimits, "connect": AqueductConnect}
    names = {field.name for field in fields(AqueductIntake)} - set(parts)
    names |= {f"{part}.{field.name}" for part, kind in parts.items() for field in fields(kind)}
    assert names == TOLD.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize(
    ("other", "option"),
    [
        (Subscription("x", (("key", "s3cret"),)), "subscribeHeaders"),
        (Subscription("x", payload="s3cret"), "subscribePayload"),
    ],
)
def test_what_requests_say_is_told_as_a_digest(other: Subscription, option: str) -> None:
    before, after = changed("connect.subscriptions", (other,))
    assert differing(in_force(before), in_force(after)) == [option]
    assert in_force(after)[option].startswith("#")
    strange = replace(after, credentials=Credentials("another token", b"", None))
    assert differing(in_force(after), in_force(strange)) == [option]


def test_the_order_of_endpoints_and_names_does_not_matter() -> None:
    one = AqueductConnect(("a:1", "b:2"), subscriptions=(Subscription("x"), Subscription("y")))
    two = AqueductConnect(("b:2", "a:1"), subscriptions=(Subscription("y"), Subscription("x")))
    told = [in_force(replace(DIALS, connect=connect)) for connect in (one, two)]
    assert told[0] == told[1]


def test_thousands_of_names_are_told_in_few_characters() -> None:
    names = tuple(Subscription(f"channel-{number}") for number in range(5_000))
    told = in_force(changed("connect.subscriptions", names)[1])
    assert len(told["subscribe"]) < 30
