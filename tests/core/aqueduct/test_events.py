"""What an application is told."""

from __future__ import annotations

import numpy as np

from aqueduct_core.aqueduct.events import Attachment, MessageBatch, Single


def test_a_run_gives_its_messages_one_by_one() -> None:
    offsets = np.array([0, 2, 2, 5], np.int64)
    headers, attachments = ((b"k", b"v"),), (Attachment(8, ()),)
    run = MessageBatch(0, True, 7, 3, b"aabcd", offsets, 30, {1: headers}, {2: attachments})
    assert list(run.messages()) == [
        Single(7, b"aa", (), ()),
        Single(8, b"", headers, ()),
        Single(9, b"bcd", (), attachments),
    ]
