"""The library's stores say what the port says; `make objects` asks an S3 gateway the same."""

from __future__ import annotations

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.spool.objects.obstore_store import ObstoreStore, open_store
from aqueduct_core.spool.objects.store import (
    CreateObject,
    GetObject,
    ObjectFound,
    ObjectStore,
    StoreUnavailable,
)
from tests.core.spool.rows import check_all, check_marks, store
from tests.support.objects.memory_store import MemoryStore
from tests.support.objects.store_contract import check_contract


@pytest.mark.parametrize("make", [lambda: open_store("memory://"), MemoryStore])
def test_what_a_store_promises(make: object) -> None:
    assert callable(make)
    each: ObjectStore = make()
    check_contract(each, "some/prefix/")


def test_a_spool_in_the_librarys_memory() -> None:
    from tests.core.spool.objects.test_spool import SOON, open_objects

    place = open_store("memory://")
    for _ in range(2):
        with open_objects(place) as spool:
            store(spool, [3, 1], groups=9)
            assert spool.finish_maintenance(SOON)
            check_all(spool)
            check_marks(spool)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:///data", "scheme 'file'"),
        ("https://bucket.s3.amazonaws.com", "scheme 'https'"),
        ("s3://bucket/?X-Amz-Signature=secret", "a query"),
        ("s3://key:secret@bucket/prefix", "credentials"),
    ],
)
def test_urls_that_are_no_spool(url: str, why: str) -> None:
    with pytest.raises(InvalidOption, match=why) as found:
        open_store(url)
    assert "secret" not in str(found.value)


class Leaky:
    """A store whose errors tell what it was given."""

    def __getattr__(self, name: str) -> None:
        raise ValueError("secret")


def test_texts_of_the_library_are_told_nobody() -> None:
    each = ObstoreStore(Leaky(), "s3://bucket/spool")
    outcome = each.carry_out(GetObject("k"))
    assert isinstance(outcome, StoreUnavailable)
    assert "secret" not in repr(outcome)
    assert repr(each) == "<ObstoreStore s3://bucket/spool>"


def test_bytes_that_are_found_are_those_that_were_stored() -> None:
    each = open_store("memory://")
    each.carry_out(CreateObject("k", bytes(range(256))))
    found = each.carry_out(GetObject("k", 3, 9))
    assert isinstance(found, ObjectFound)
    assert found.data == bytes(range(3, 9))
