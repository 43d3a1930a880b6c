"""Batches of messages as columns."""

from __future__ import annotations

import numpy as np

from aqueduct_core.engine.message_batch import Attachment, BatchItem, MessageBatch


def test_a_batch_gives_its_messages_one_by_one() -> None:
    offsets = np.array([0, 2, 2, 5], np.int64)
    headers, attachments = ((b"k", b"v"),), (Attachment(8, ()),)
    batch = MessageBatch(0, True, 7, 3, b"aabcd", offsets, 30, {1: headers}, {2: attachments})
    assert list(batch.messages()) == [
        BatchItem(7, b"aa", (), ()),
        BatchItem(8, b"", headers, ()),
        BatchItem(9, b"bcd", (), attachments),
    ]
