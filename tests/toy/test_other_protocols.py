"""A format reads spools and intakes of its own protocol, and refuses others by both names."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.storage.layout import LAYOUT
from aqueduct_spark.datasource import FormatDataSource
from aqueduct_spark.formats.aqueduct.format import AqueductDataSource
from aqueduct_spark.model.offsets import StreamOffset
from aqueduct_spark.options.read import StreamReadOptions
from aqueduct_spark.read.stream.planner import StreamPlanner
from tests.spark.spools import filled
from tests.support.intake_process import IntakeProcess, Site
from tests.toy.format import ToyDataSource
from tests.toy.spools import toy_settings, toy_spool

Reading = type[FormatDataSource]
BOTH = [
    pytest.param(AqueductDataSource, "toy", "aqueduct", id="a toy's with format aqueduct"),
    pytest.param(ToyDataSource, "aqueduct", "toy", id="Aqueduct's with format toy"),
]


def spool_of(protocol: str, directory: Path) -> None:
    if protocol == "toy":
        toy_spool(directory, [b"x"] * 3)
    else:
        filled(directory, (3,))


@contextmanager
def refused(found: str, own: str, where: str = "") -> Iterator[None]:
    there = rf"CONFLICT\].*{where} holds messages of protocol {found}, "
    both = there + f"and format {own} reads those of protocol {own}"
    with pytest.raises(InvalidOption, match=both):
        yield


@pytest.mark.parametrize(("reading", "found", "own"), BOTH)
@pytest.mark.parametrize("view", ["messages", "events"])
def test_a_stored_spool_of_another_is_refused_when_the_frame_is_loaded(
    reading: Reading, found: str, own: str, view: str, tmp_path: Path
) -> None:
    spool_of(found, tmp_path / "spool" / "intake-0")
    with refused(found, own):
        reading({"spool": str(tmp_path / "spool"), "view": view}).schema()
    moved = tmp_path / "elsewhere"
    shutil.move(tmp_path / "spool" / "intake-0", moved)
    with refused(found, own):
        reading({"spool": str(moved), "view": view}).schema()


@pytest.mark.parametrize(("reading", "found", "own"), BOTH)
def test_one_of_several_is_enough(reading: Reading, found: str, own: str, tmp_path: Path) -> None:
    for number, protocol in enumerate((own, own, found)):
        spool_of(protocol, tmp_path / f"intake-{number}")
    with refused(found, own, "intake-2"):
        reading({"spool": str(tmp_path)}).schema()


@pytest.mark.parametrize("reading", [ToyDataSource, AqueductDataSource])
def test_a_spool_that_names_no_protocol_is_of_aqueduct(reading: Reading, tmp_path: Path) -> None:
    filled(tmp_path, (3,))
    (tmp_path / LAYOUT).write_text('{"v": 1, "partitions": 1}')
    source = reading({"spool": str(tmp_path)})
    if reading is AqueductDataSource:
        assert "messageNum" in source.schema().fieldNames()
    else:
        with refused("aqueduct", "toy"):
            source.schema()


@pytest.mark.parametrize(("reading", "found", "own"), BOTH)
def test_the_status_of_a_stored_spool_is_of_its_own_format(
    reading: Reading, found: str, own: str, tmp_path: Path
) -> None:
    spool_of(found, tmp_path)
    source = reading({"spool": str(tmp_path), "view": "status"})
    with refused(found, own):
        source.reader(source.schema()).partitions()


@pytest.mark.parametrize(("reading", "found", "own"), BOTH)
def test_a_query_that_would_launch_onto_it_is_refused_before(
    reading: Reading, found: str, own: str, tmp_path: Path
) -> None:
    spool_of(found, tmp_path / "intake-0")
    given = {"listen": "127.0.0.1:0", "spool": str(tmp_path), "tls.selfSigned": "true"}
    with refused(found, own):
        planner(reading, given)
    (tmp_path / "intake-0" / LAYOUT).write_text("damaged")
    planner(reading, given).stop()  # its intake will refuse it, when it starts


@pytest.mark.parametrize(("reading", "found", "own"), BOTH)
def test_an_intake_that_runs_is_asked(
    reading: Reading, found: str, own: str, tmp_path: Path
) -> None:
    site = Site(tmp_path)
    with intake(site, found) as running:
        assert running.status().protocol == found
        authority, token = tmp_path / "ca.pem", tmp_path / "token"
        authority.write_bytes(site.credentials.authority)
        token.write_text(site.credentials.token)
        given = {
            "intakes": running.ready["flight"],
            "tls.caFile": str(authority),
            "auth.tokenFile": str(token),
        }
        follow = {"until": "idle:1s", "untilTimeout": "10s"}
        for options in (given, given | follow, given | {"view": "events"}):
            source = reading(options)
            schema = source.schema()  # it may be meant for a stream, which meets it by itself
            with refused(found, own):
                source.reader(schema).partitions()
        status = reading(given | {"view": "status"})
        reader = status.reader(status.schema())
        with refused(found, own):
            list(reader.read(reader.partitions()[0]))
        stream = planner(reading, given)
        try:
            with refused(found, own):
                stream.latest(StreamOffset())
        finally:
            stream.stop()


def planner(reading: Reading, given: dict[str, str]) -> StreamPlanner:
    description = reading.description
    return StreamPlanner(description, StreamReadOptions.parse(given, description.options))


@contextmanager
def intake(site: Site, protocol: str) -> Iterator[IntakeProcess]:
    given = site.settings() if protocol == "aqueduct" else toy_settings(site)
    process = IntakeProcess(site, given)
    try:
        process.wait_ready()
        yield process
    finally:
        process.kill()
