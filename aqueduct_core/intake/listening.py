"""What the settings of an intake mean to the engine, the transport and its listener."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aqueduct_core.aqueduct.config import AckMode, Config
from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.settings import IntakeSettings
from aqueduct_core.transport.settings import LinkSettings, ListenLimits
from aqueduct_core.transport.tls import ServerTls

CHANNEL_BUFFER = 4 << 20
"""Bytes of a channel that wait for the disk, told to producers that know flow control: some
groups' worth, and what one stream of the transport may hold."""


def engine_config(settings: IntakeSettings) -> Config:
    """Acks mean *stored*, and so does credit. All channels together have no limit of their own:
    the transport's connection window bounds them."""
    limits = settings.limits
    return Config(
        ack_mode=AckMode.ON_STORED,
        flow_per_channel=CHANNEL_BUFFER,
        max_payload_bytes=settings.max_message_bytes,
        **_given(
            max_channels=limits.channels,
            max_attachments=limits.attachments,
            max_headers_bytes=limits.header_bytes,
            handshake_timeout=limits.handshake_seconds,
        ),
    )


def link_settings(settings: IntakeSettings) -> LinkSettings:
    return LinkSettings(**_given(handshake_timeout=settings.limits.handshake_seconds))


def listen_limits(settings: IntakeSettings) -> ListenLimits:
    limits = settings.limits
    return ListenLimits(
        **_given(connections=limits.connections, per_address=limits.connections_per_address)
    )


def server_tls(settings: IntakeSettings) -> ServerTls:
    """The listener's certificate; raises InvalidOption.MISSING when none is named."""
    tls = settings.tls
    if tls.self_signed:
        return ServerTls.self_signed(tls.self_signed)
    if tls.cert_file is None or tls.key_file is None:
        raise InvalidOption(
            "MISSING",
            "the listener has no certificate",
            "Set tls.certFile and tls.keyFile, or tls.selfSigned",
        )
    return ServerTls(cert_file=Path(tls.cert_file), key_file=Path(tls.key_file))


def _given(**values: Any) -> dict[str, Any]:
    """Those that were set; the others keep the defaults of the part that they are for."""
    return {name: value for name, value in values.items() if value is not None}
