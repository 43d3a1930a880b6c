"""What the settings of an intake mean to an engine of QUICR and to its link."""

from __future__ import annotations

from aqueduct_core.intake.quicr.settings import QuicrIntake
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.media.fragment import MAX_OBJECT
from aqueduct_core.transport.settings import LinkSettings


def engine_config(settings: QuicrIntake) -> QuicrConfig:
    """An intake sends no media, so there is nothing to give up."""
    return QuicrConfig(dropping=None, max_object=min(settings.max_message_bytes, MAX_OBJECT))


def link_settings(settings: QuicrIntake) -> LinkSettings:
    return LinkSettings(
        handshake_timeout=settings.limits.handshake_timeout,
        max_datagram_size=settings.max_datagram_bytes,
        max_streams_uni=0,
        max_streams_bidi=0 if settings.connect is not None else QuicrConfig().max_transactions,
    )
