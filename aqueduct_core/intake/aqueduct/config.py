"""What the settings of an intake mean to an Aqueduct engine."""

from __future__ import annotations

from aqueduct_core.aqueduct.config import CHANNEL_BUFFER, AckMode, Config
from aqueduct_core.aqueduct.conventions.headers import BadHeader
from aqueduct_core.aqueduct.wire.codec import headers_size
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.intake.aqueduct.settings import AqueductIntake
from aqueduct_core.transport.settings import LinkSettings

NUMBER_BYTES = 64
"""A sink's header ``source-offset`` comes on top of a row's own headers, and is not stored: so a
row that one intake takes can go on to the next one, with the same limits."""


def engine_config(settings: AqueductIntake) -> Config:
    """Acks mean *stored*, and so do credit and the end of a finish. All channels together have no
    limit of their own: the transport's connection window bounds them."""
    limits = settings.limits
    return Config(
        ack_mode=AckMode.ON_STORED,
        confirm_finish=True,
        unordered_runs=True,
        # acks say the same; a stream for each channel that carries nothing costs more than it
        route_back_on_attach=False,
        flow_per_channel=CHANNEL_BUFFER,
        max_payload_bytes=settings.max_message_bytes,
        max_headers_bytes=limits.header_bytes + NUMBER_BYTES,
        max_header_pairs=Config().max_header_pairs + 1,
        max_channels=limits.channels,
        max_attachments=limits.attachments,
        handshake_timeout=limits.handshake_timeout,
    )


def check_row_headers(batch: MessageBatch, config: Config) -> None:
    """Whether each message's own headers are within the limits of `engine_config`.

    Raises: BadHeader.
    """
    most, pairs = config.max_headers_bytes - NUMBER_BYTES, config.max_header_pairs - 1
    for headers in batch.headers.values():
        size = headers_size(headers)
        if len(headers) > pairs or size > most:
            raise BadHeader(
                f"a message has {len(headers)} headers of {size} bytes;"
                f" {pairs} of {most} are allowed"
            )


def link_settings(settings: AqueductIntake) -> LinkSettings:
    return LinkSettings(
        handshake_timeout=settings.limits.handshake_timeout,
        max_datagram_size=settings.max_datagram_bytes,
    )
