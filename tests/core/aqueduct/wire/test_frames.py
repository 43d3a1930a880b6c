"""Frames as they are shown in logs."""

from __future__ import annotations

import numpy as np

from aqueduct_core.aqueduct.events import Opened
from aqueduct_core.aqueduct.wire.frames import (
    ConnectionHeaders,
    MessageFrame,
)
from aqueduct_core.engine.message_batch import Attachment, MessageBatch


def test_frames_hide_payloads_in_logs() -> None:
    frame = MessageFrame(3, ((b"k", b"secret"),), (Attachment(8, ()),), b"secret", 20)
    assert "secret" not in repr(frame)
    assert "number=3" in repr(frame)
    secret = ((b"authorization", b"secret"),)
    batch = MessageBatch(
        0, True, 0, 1, b"secret", np.array([0, 6]), 12, {0: secret}, {0: (Attachment(8, secret),)}
    )
    for value in (ConnectionHeaders(secret), Opened(secret), batch, *batch.messages()):
        assert "secret" not in repr(value)
    assert "authorization" in repr(Opened(secret))
