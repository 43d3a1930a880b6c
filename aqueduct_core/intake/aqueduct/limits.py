"""The limits of an intake that are Aqueduct's alone. Light to import: the driver reads them when it
looks up the format."""

from __future__ import annotations

from typing import Annotated

from aqueduct_core.intake.settings.service import Limits
from aqueduct_core.primitives.settings import number, size


class AqueductLimits(Limits, frozen=True, kw_only=True):
    """Those that are of Aqueduct alone."""

    channels: Annotated[int, number(1, 1 << 24, "Channels of one connection at once.")] = 65_536
    attachments: Annotated[int, number(1, 1 << 16, "Channels attached to one message.")] = 256
    header_bytes: Annotated[
        int, size("1k", "16m", "Header data of a connection, channel or message.")
    ] = 64_000
