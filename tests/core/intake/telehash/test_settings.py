"""Settings of an intake of Telehash: as JSON and TOML, as they are refused, and as they are
compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake import config_file
from aqueduct_core.intake.adapter import settings_from
from aqueduct_core.intake.settings.in_force import differing, in_force
from aqueduct_core.intake.settings.intake import AuthSettings
from aqueduct_core.intake.settings.recorded import admission_of
from aqueduct_core.intake.telehash.channels import (
    LONGEST_TYPE,
    MAX_TYPES,
    RESERVED,
    ChannelIntake,
)
from aqueduct_core.intake.telehash.settings import TelehashConnect, TelehashIntake
from tests.support.rules import rule

HASHNAME = "ab" * 32


def intake(**given: Any) -> TelehashIntake:
    base = {"spool": "/s", "credentials": Credentials("t", b"c")}
    return TelehashIntake(
        **{**base, **({} if "connect" in given else {"listen": "[::1]:0"}), **given}
    )


def test_they_come_back_from_json() -> None:
    given = intake(
        connect=TelehashConnect(("telehash://o:1",)),
        types=("_a", "_b"),
        channels=ChannelIntake(ack_level="committed", window=32, channel_timeout=2.5),
        hashname=":".join(["AB"] * 32),
        peer_hashname=HASHNAME,
    )
    assert settings_from(given.to_json()) == given
    assert given.hashname == HASHNAME
    assert given.connect is not None
    assert given.connect.endpoints == ("o:1",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('listen = "127.0.0.1:0"', ("127.0.0.1:0", None, "quic")),
        ('listen = "telehash://127.0.0.1:0"', ("127.0.0.1:0", None, "quic")),
        ('listen = "udp://[::1]:0/"', ("[::1]:0", None, "udp")),
        (
            'types = ["_a"]\n[connect]\nendpoints = ["udp://h:1", "i:2"]',
            (None, ("h:1", "i:2"), "udp"),
        ),
    ],
)
def test_a_file_names_the_carrier_by_a_scheme(text: str, expected: Any, tmp_path: Path) -> None:
    path = tmp_path / "intake.toml"
    path.write_text(
        f'protocol = "telehash"\nspool = "{tmp_path}/spool"\n{text}\n'
        '[channels]\nackLevel = "committed"\nchannelTimeout = "3s"\n'
    )
    settings, _ = config_file.read(path)
    assert isinstance(settings, TelehashIntake)
    connect = settings.connect
    found = settings.listen, None if connect is None else connect.endpoints, settings.carrier
    assert found == expected
    assert settings.channels == ChannelIntake(ack_level="committed", channel_timeout=3.0)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ('listen = "udp://h:0"\ncarrier = "quic"', "CONFLICT.*telehash:// and of udp://"),
        (
            'types = ["_a"]\n[connect]\nendpoints = ["udp://h:1", "telehash://i:2"]',
            "CONFLICT.*telehash:// and of udp://",
        ),
        ('listen = "quicr://h:1"', "listen is 'quicr://h:1'"),
        ("listen = 3", "listen is 3; it must be a text"),
        ('listen = "h:1"\n[channels]\nackLevel = "read"', "ackLevel.*stored"),
        ('listen = "h:1"\n[channels]\nwindow = 101', "window.*1 to 100"),
        ('listen = "h:1"\n[channels]\nchannelTimeout = 10', "channelTimeout.*without a unit"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(text: str, refusal: str, tmp_path: Path) -> None:
    path = tmp_path / "intake.toml"
    path.write_text(f'protocol = "telehash"\nspool = "{tmp_path}/spool"\n{text}\n')
    with pytest.raises(InvalidOption, match=refusal):
        config_file.read(path)


@rule("T-2")
@pytest.mark.parametrize("kind", sorted(RESERVED))
def test_types_of_the_switch_are_never_asked_for(kind: str) -> None:
    with pytest.raises(InvalidOption, match=f"type is '{kind}': it must be the type of an appl"):
        intake(types=(kind,))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"connect": TelehashConnect(("o:1",))}, "MISSING.*no type of channel.*Set type"),
        ({"types": ("_a", "_a")}, "type names '_a' twice"),
        ({"types": ("",)}, f"a type of 1 to {LONGEST_TYPE} bytes"),
        ({"types": ("_a\n",)}, f"a type of 1 to {LONGEST_TYPE} bytes"),
        ({"types": tuple(map(str, range(MAX_TYPES + 1)))}, "1001 types"),
        ({"hashname": "xy"}, "hashname is 'xy'.*64 hexadecimal"),
        ({"peer_hashname": "ab"}, "peerHashname is 'ab'"),
        ({"auth": AuthSettings(token_file="/t")}, r"auth\.tokenFile is set.*no place for a token"),
        ({"auth": AuthSettings(token="secret", token_env="T")}, r"auth\.tokenEnv is set"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidOption, match=text) as refused:
        intake(**given)
    assert "secret" not in str(refused.value)


def test_a_token_for_an_endpoint_is_refused() -> None:
    with pytest.raises(InvalidOption, match="no place for a token"):
        TelehashConnect(("o:1",), token="secret")


def test_a_query_finds_that_an_intake_runs_with_others() -> None:
    one = in_force(intake(types=("_b", "_a")))
    same = in_force(intake(types=("_a", "_b")))
    other = in_force(
        intake(
            carrier="udp",
            udp_trusted=True,
            channels=ChannelIntake(ack_level="committed"),
            hashname=HASHNAME,
        )
    )
    assert one == same
    assert differing(one, other) == ["ackLevel", "carrier", "hashname", "type", "udp.trusted"]


def test_a_spool_that_was_served_over_one_carrier_is_so_again() -> None:
    quic, udp = (admission_of(intake(carrier=each)) for each in ("quic", "udp"))
    assert quic == {"listen": "[::1]:0"}
    assert udp == {"listen": "[::1]:0", "carrier": "udp"}
