"""Runs of messages as an engine would report them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aqueduct_core.engine.message_batch import Attachment, Headers, MessageBatch


def run(
    payloads: Sequence[bytes],
    *,
    channel: int = 0,
    first: int = 0,
    reliable: bool = True,
    headers: Mapping[int, Headers] | None = None,
    attachments: Mapping[int, tuple[Attachment, ...]] | None = None,
) -> MessageBatch:
    ends = np.cumsum([0, *(len(payload) for payload in payloads)], dtype=np.int64)
    return MessageBatch(
        channel=channel,
        reliable=reliable,
        first=first,
        count=len(payloads),
        payload=b"".join(payloads),
        offsets=ends,
        size=int(ends[-1]) + 4 * len(payloads),
        headers=headers or {},
        attachments=attachments or {},
    )
