"""What an application that gives no ``Config`` gets."""

from __future__ import annotations

from aqueduct_core.aqueduct.config import Config

CHANNEL_BUFFER = 4 * 1024 * 1024
"""Bytes that a receiver of ours buffers, told to senders that know flow control: as much as one
stream of the transport may hold, and as a local queue."""

CONFIG = Config(flow_per_channel=CHANNEL_BUFFER)
