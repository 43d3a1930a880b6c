"""Protocols are found by name, and a spool is of one of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.adapter import adapter_named, settings_from
from aqueduct_core.intake.aqueduct.adapter import ADAPTER
from aqueduct_core.intake.aqueduct.rows import EARLIER_ROWS, ROWS
from aqueduct_core.intake.aqueduct.settings import AqueductIntake
from aqueduct_core.intake.storage.layout import LAYOUT, protocol_of, settle_layout
from tests.support.intake_process import Site


def test_an_adapter_is_found_by_its_name_or_its_place() -> None:
    assert adapter_named("aqueduct") is ADAPTER
    assert adapter_named("aqueduct_core.intake.aqueduct.adapter:ADAPTER") is ADAPTER


@pytest.mark.parametrize("name", ["", "gopher", "gopher.adapter:IT", "json:IT", "json"])
def test_where_there_is_none_the_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match=f"BAD_VALUE.*protocol is '{name}'"):
        adapter_named(name)


def test_settings_are_those_of_the_protocol(site: Site) -> None:
    settings = site.settings()
    assert isinstance(settings_from(settings.to_json()), AqueductIntake)
    other = json.loads(settings.to_json()) | {"protocol": "gopher"}
    with pytest.raises(InvalidOption, match="gopher"):
        settings_from(json.dumps(other))


def test_a_spool_of_another_protocol_is_refused_with_both_names(tmp_path: Path) -> None:
    settle_layout(tmp_path, 2, "gopher")
    assert protocol_of(tmp_path) == ("gopher", "gopher")
    with pytest.raises(InvalidOption, match=r"CONFLICT.*protocol gopher, not of aqueduct"):
        settle_layout(tmp_path, 2, "aqueduct")


def test_an_intake_refuses_a_spool_of_another_protocol(site: Site) -> None:
    settle_layout(site.spool, 2, "gopher")
    with pytest.raises(InvalidOption, match=r"CONFLICT.*gopher.*aqueduct"), site.intake():
        pytest.fail("it started")


def test_a_spool_that_names_no_protocol_is_of_aqueduct(tmp_path: Path) -> None:
    (tmp_path / LAYOUT).write_text('{"v": 1, "partitions": 2}')
    settle_layout(tmp_path, 2, "aqueduct")
    assert protocol_of(tmp_path) == ("aqueduct", "aqueduct")


def test_a_spool_of_an_earlier_release_is_carried_on_in_its_own_form() -> None:
    assert ROWS.as_stored(EARLIER_ROWS.schema) is EARLIER_ROWS
    assert ROWS.as_stored(None) is ROWS.as_stored(ROWS.schema) is ROWS
    assert ROWS.reads(EARLIER_ROWS.schema)
    assert not ROWS.reads(EARLIER_ROWS.schema.remove(0))
