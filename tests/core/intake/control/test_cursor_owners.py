from __future__ import annotations

import errno
from pathlib import Path

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.flight.status import CursorOwner
from aqueduct_core.intake.control.cursor_owners import FILE, CursorOwners, owners_in
from aqueduct_core.primitives import atomic_file

HERE = "host box, process 7"


def test_the_first_query_with_an_id_owns_a_cursor_for_good(tmp_path: Path) -> None:
    CursorOwners(tmp_path).claim("c", "a1", HERE, 10.0)
    owners = CursorOwners(tmp_path)  # those of the next intake
    owners.check("c", "a1")
    owners.check("another", "b2")
    for query in ("b2", ""):
        with pytest.raises(SpoolFailed, match="CURSOR_IN_USE") as refused:
            owners.claim("c", query, HERE, 11.0)
        for word in ("a1", HERE, "1970-01-01 00:00:10 UTC", "--give c", "option cursor"):
            assert word in str(refused.value)
    assert owners.all == owners_in(tmp_path) == {"c": CursorOwner("a1", HERE, 10.0)}


def test_what_is_in_no_checkpoint_owns_nothing(tmp_path: Path) -> None:
    owners = CursorOwners(tmp_path)
    owners.claim("c", "", HERE, 10.0)
    owners.check("c", "b2")
    assert not (tmp_path / FILE).exists()


def test_the_remedy_names_the_spool_as_users_do(tmp_path: Path) -> None:
    directory = tmp_path / "intake-3"
    directory.mkdir()
    owners = CursorOwners(directory)
    owners.claim("c", "a1", HERE, 10.0)
    with pytest.raises(SpoolFailed, match=rf"spool cursors {tmp_path} --give c"):
        owners.check("c", "b2")


def test_a_cursor_that_was_let_go_belongs_to_the_next(tmp_path: Path) -> None:
    owners = CursorOwners(tmp_path)
    owners.claim("c", "a1", HERE, 10.0)
    owners.claim("d", "a1", HERE, 10.0)
    owners.forget("c")
    owners.forget("never there")
    owners = CursorOwners(tmp_path)
    owners.claim("c", "b2", HERE, 20.0)
    assert {name: owner.query for name, owner in owners_in(tmp_path).items()} == {
        "c": "b2",
        "d": "a1",
    }


def test_where_it_runs_is_written_only_when_it_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Path] = []
    real = atomic_file.replace

    def replace(path: Path, content: bytes) -> None:
        written.append(path)
        real(path, content)

    monkeypatch.setattr(atomic_file, "replace", replace)
    owners = CursorOwners(tmp_path)
    for _ in range(3):
        owners.claim("c", "a1", HERE, 10.0)
    owners.claim("c", "a1", "host other, process 8", 20.0)
    assert len(written) == 2
    assert owners_in(tmp_path)["c"] == CursorOwner("a1", "host other, process 8", 20.0)


def test_fault_13_a_full_disk_keeps_new_owners_out_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = CursorOwners(tmp_path)
    owners.claim("c", "a1", HERE, 10.0)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic_file, "replace", full)
    owners.claim("c", "a1", "host other", 20.0)
    with pytest.raises(SpoolFailed, match=r"SPOOL\.FULL"):
        owners.claim("d", "a1", HERE, 20.0)
    owners.check("d", "b2")
    with pytest.raises(SpoolFailed, match=r"SPOOL\.FULL"):
        owners.forget("c")
    with pytest.raises(SpoolFailed, match="CURSOR_IN_USE"):
        owners.check("c", "b2")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "AQUEDUCT_SPOOL.CORRUPT"),
        ('{"v": 1}', "AQUEDUCT_SPOOL.CORRUPT"),
        ('{"v": 1, "owners": {"c": {"query": "a1"}}}', "AQUEDUCT_SPOOL.CORRUPT"),
        ('{"v": 2}', "AQUEDUCT_SPOOL.VERSION"),
    ],
)
def test_a_file_that_is_not_ours_is_one_error(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(SpoolFailed) as caught:
        CursorOwners(tmp_path)
    assert caught.value.name == name
