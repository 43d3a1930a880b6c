"""The defaults and bounds of what an intake grants are those of the parts that keep them."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.aqueduct.limits import AqueductLimits
from aqueduct_core.intake.settings.service import ServiceSettings
from aqueduct_core.primitives.settings import settings_of
from aqueduct_core.transport.settings import LinkSettings, ListenLimits


def test_limits_have_the_defaults_of_the_parts_that_keep_them() -> None:
    limits, listen, config = AqueductLimits(), ListenLimits(), Config()
    for name in (
        "connections", "connections_per_address", "handshakes", "handshakes_per_network", "retry",
        "memory", "connection_share",
    ):  # fmt: skip
        assert getattr(limits, name) == getattr(listen, name), name
    assert limits.channels == config.max_channels
    assert limits.attachments == config.max_attachments
    assert limits.header_bytes == config.max_headers_bytes
    assert limits.handshake_timeout == config.handshake_timeout == LinkSettings().handshake_timeout


def test_every_setting_has_a_text_and_a_legal_default() -> None:
    for kind in (ServiceSettings, AqueductLimits):
        kind()
        assert all(each.text.endswith(".") for each in settings_of(kind))


def test_retention_has_no_end_but_a_beginning() -> None:
    assert ServiceSettings(retention=1e11).retention == 1e11
    with pytest.raises(InvalidOption, match="retention is -1"):
        ServiceSettings(retention=-1.0)


def test_the_key_of_the_handshake_is_that_of_its_first_release() -> None:
    keys = {each.name: each.key for each in settings_of(AqueductLimits)}
    assert keys["limits.handshakeTimeout"] == "handshakeSeconds"
    others = [name for name, key in keys.items() if name != f"limits.{key}"]
    assert others == ["limits.handshakeTimeout"]
