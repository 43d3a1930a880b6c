"""``aqueduct conf``: each file that comes with the package, as it is."""

from __future__ import annotations

import pytest

from aqueduct_core.cli import conf
from aqueduct_core.cli.main import main
from tests.support.repository import ROOT

NAMES = [
    path.relative_to(ROOT / "conf").as_posix()
    for path in sorted((ROOT / "conf").rglob("*"))
    if path.is_file()
]


def test_all_of_them_are_listed_with_what_they_are_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["conf"]) == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert sorted(listed) == sorted(NAMES)
    assert listed["ingest.toml"].startswith("Aqueduct channels into a table")
    assert listed["grafana/aqueduct.json"].startswith("A dashboard of Grafana: ")


@pytest.mark.parametrize("name", NAMES)
def test_one_is_printed_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conf", name]) == 0
    assert capsys.readouterr().out == (ROOT / "conf" / name).read_text("utf-8")


def test_the_path_is_for_programs_that_want_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conf", "--path", "spark-defaults.conf"]) == 0
    assert main(["conf", "--path"]) == 0
    file, folder = capsys.readouterr().out.splitlines()
    assert (file, folder) == (str(conf.FOLDER / "spark-defaults.conf"), str(conf.FOLDER))


def test_a_name_that_is_not_there_is_refused_with_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["conf", "ingest"])
    assert end.value.code == 2
    assert "ingest.toml" in capsys.readouterr().err
