"""What the settings of an intake mean to its engines and links."""

from __future__ import annotations

from typing import Any

from aqueduct_core.aqueduct.config import AckMode, Config
from aqueduct_core.intake.settings import IntakeSettings
from aqueduct_core.transport.settings import LinkSettings

CHANNEL_BUFFER = 4 << 20
"""Bytes of a channel that wait for the disk, told to producers that know flow control: some
groups' worth, and what one stream of the transport may hold."""


def engine_config(settings: IntakeSettings) -> Config:
    """Acks mean *stored*, and so do credit and the end of a finish. All channels together have no
    limit of their own: the transport's connection window bounds them."""
    limits = settings.limits
    return Config(
        ack_mode=AckMode.ON_STORED,
        confirm_finish=True,
        flow_per_channel=CHANNEL_BUFFER,
        max_payload_bytes=settings.max_message_bytes,
        **given(
            max_channels=limits.channels,
            max_attachments=limits.attachments,
            max_headers_bytes=limits.header_bytes,
            handshake_timeout=limits.handshake_seconds,
        ),
    )


def link_settings(settings: IntakeSettings) -> LinkSettings:
    return LinkSettings(**given(handshake_timeout=settings.limits.handshake_seconds))


def given(**values: Any) -> dict[str, Any]:
    """Those that were set; the others keep the defaults of the part that they are for."""
    return {name: value for name, value in values.items() if value is not None}
