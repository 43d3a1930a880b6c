from __future__ import annotations

import pytest

from aqueduct_core.errors import AqueductError, DataLoss, SaveModeRefused
from aqueduct_core.flight import error_codec


@pytest.mark.parametrize(
    "error",
    [DataLoss("RANGE_GONE", "offsets 1 to 5 are gone", "Restart"), SaveModeRefused("", "a", "b")],
)
def test_an_error_comes_back_as_the_same_class_with_the_same_text(error: AqueductError) -> None:
    back = error_codec.unpack(error_codec.pack(error))
    assert type(back) is type(error)
    assert str(back) == str(error)


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"garbage",
        b"\xff\xfe",
        b"[1]",
        b"{}",
        b'{"class": "Exception", "subclass": "", "what": "", "remedy": ""}',
        b'{"class": "DataLoss", "subclass": "NONE", "what": "", "remedy": ""}',
        b'{"class": "DataLoss", "subclass": ["NONE"], "what": "", "remedy": ""}',
        b'{"class": "DataLoss", "subclass": {}, "what": "", "remedy": ""}',
        b"[" * 100_000,
    ],
)
def test_anything_else_is_none_of_ours(data: bytes | None) -> None:
    assert error_codec.unpack(data) is None
