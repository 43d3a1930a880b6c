"""What ``docs/security.md`` says of limits, and its example, is what the code does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.flight import unauthenticated
from aqueduct_core.intake import config_file, process
from aqueduct_core.intake.sessions.authentication import Authentication
from aqueduct_core.intake.sessions.listen import SHARED_WINDOW, listen_limits
from aqueduct_core.intake.settings.intake import AuthSettings
from aqueduct_core.logs import refusals
from aqueduct_core.transport import (
    address_validation,
    datagram_server,
    fair_turns,
    listener,
    settings,
    stateless_reset,
)
from aqueduct_core.transport.aioquic import factory, packet_limits, streams
from aqueduct_core.transport.settings import LinkSettings, ListenLimits
from aqueduct_spark.formats.aqueduct.options import AQUEDUCT_OPTIONS
from tests.docs.blocks import texts
from tests.support.repository import ROOT
from tests.support.waiting import LONG

PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
LIMITS = re.findall(r"^\| `([\w.]+)` \| ([\w.]+) \| ", PAGE, re.MULTILINE)
BOUNDS = dict(re.findall(r"^\| ([a-z][^|`]+) \| (\d[^|]*) \|$", PAGE, re.MULTILINE))


def block(language: str) -> str:
    [text] = texts("docs/security.md", language)
    return text


@pytest.mark.parametrize(("name", "value"), LIMITS)
def test_defaults_of_limits(name: str, value: str) -> None:
    (spec,) = [spec for spec in AQUEDUCT_OPTIONS.specs if spec.name == name]
    assert spec.default == value


def test_every_limit_of_the_source_has_a_row() -> None:
    limits = {spec.name for spec in AQUEDUCT_OPTIONS.specs if spec.name.startswith("limits.")}
    assert limits <= {name for name, _ in LIMITS}


def test_bounds_without_an_option() -> None:
    numbers = [[int(number) for number in re.findall(r"\d+", text)] for text in BOUNDS.values()]
    assert numbers == [
        [factory.STREAMS_OF_STRANGERS],
        [Config().max_prehandshake_bytes],
        [LinkSettings().connection_window, SHARED_WINDOW, settings.LEAST_WINDOW],
        [streams.MAX_RANGES],
        [streams.MAX_CONNECTION_RANGES],
        [settings.LARGEST_DATAGRAM],
        [packet_limits.MOST_ACK_RANGES],
        [fair_turns.WAITING],
        [Config().work_per_turn],
        [datagram_server.STRANGERS_WAITING],
        [round(datagram_server.STRANGERS_SHARE * 1000)],
        [stateless_reset.PER_SECOND],
        [unauthenticated.MAX_WAITING],
        [unauthenticated.MAX_LOOKS * unauthenticated.LOOK_SECONDS],
        [process.MAX_DESCRIPTORS],
        [refusals.LINES],
    ]
    assert f"in {refusals.PERIOD:.0f} seconds" in list(BOUNDS)[-1]


def test_when_retry_switches_itself_on() -> None:
    unproved = ListenLimits().handshakes // listener.UNPROVED_PART
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| `limits.retry`")]
    assert [int(number) for number in re.findall(r"\d+", row)] == [
        address_validation.RATE,
        address_validation.BURST,
        unproved,
        address_validation.CALM,
    ]


def test_the_exposed_intake_is_configured_so(tmp_path: Path) -> None:
    text = block("toml").replace("/var/lib/aqueduct", str(tmp_path))
    file = tmp_path / "intake.toml"
    file.write_text(text)
    read, keys = config_file.read(file)
    assert keys == tmp_path / "keys"
    assert read.auth.required
    assert not read.early_data
    limits = listen_limits(read)
    assert (limits.retry, limits.connections, limits.connections_per_address) == (
        "always",
        2_000,
        64,
    )


def test_the_token_that_is_made_admits(tmp_path: Path) -> None:
    subprocess.run(["sh", "-c", block("sh")], cwd=tmp_path, check=True, timeout=LONG)
    file = tmp_path / "tokens"
    assert file.stat().st_mode & 0o777 == 0o600
    admission = Authentication(AuthSettings(str(file)))
    token = file.read_text().strip()
    assert len(token) >= 40
    assert admission.refusal(token) is None
    assert admission.refusal(token[1:]) is not None
