"""The configuration of jobs: what is read, what is refused, and how it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_jobs import config, ingest, publish
from tests.support.repository import ROOT

KNOWN: config.Known = {"source": None, "query": frozenset({"name", "trigger"})}


def write(folder: Path, text: str) -> Path:
    path = folder / "job.toml"
    path.write_text(text)
    return path


def test_tables_are_read_and_overridden(tmp_path: Path) -> None:
    path = write(tmp_path, '[source]\nlisten = "a:1"\nincludeHeaders = true\n')
    tables = config.load(path, ["source.tls.caFile=x=y", "query.name=n"], KNOWN)
    assert config.options(tables["source"]) == {
        "listen": "a:1",
        "includeHeaders": "true",
        "tls.caFile": "x=y",
    }
    assert tables["query"] == {"name": "n"}


@pytest.mark.parametrize(
    ("text", "overrides", "said"),
    [
        ("[sauce]\n", [], "no use for table [sauce]. The nearest one is source. "),
        ('[query]\nnaem = "x"\n', [], "no use for key naem in [query]. The nearest one is name. "),
        ("query = 3\n", [], "query is no table. Write [query]"),
        ("[source\n", [], "is no TOML: "),
        ("", ["source=3"], "--set source=3 sets nothing. Write --set TABLE.KEY=VALUE"),
        ("", ["source.listen"], "--set source.listen sets nothing. Write --set TABLE.KEY=VALUE"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, overrides: list[str], said: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        config.load(write(tmp_path, text), overrides, KNOWN)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("[AQUEDUCT_INVALID_OPTION.")


def test_a_missing_file_and_a_missing_value_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="cannot be read"):
        config.load(tmp_path / "none.toml", [], KNOWN)
    with pytest.raises(InvalidOption, match=r"\[query\] name is missing"):
        config.required({"query": {}}, "query", "name")


def test_one_string_stands_for_a_list() -> None:
    tables = {"t": {"one": "a", "many": ["a", "b"]}}
    assert config.strings(tables, "t", "one") == ["a"]
    assert config.strings(tables, "t", "many") == ["a", "b"]
    assert config.strings(tables, "t", "none") == []


@pytest.mark.parametrize(
    ("file", "known"),
    [
        ("ingest.toml", ingest.KNOWN),
        ("demo.toml", ingest.KNOWN),
        ("media_ingest.toml", ingest.KNOWN),
        ("publish.toml", publish.KNOWN),
    ],
)
def test_the_shipped_files_are_accepted(file: str, known: config.Known) -> None:
    path = ROOT / "conf" / file
    assert config.load(path, [], known)


def test_values_of_the_wrong_kind_are_named(tmp_path: Path) -> None:
    for text, overrides, said in [
        ("source = 5", ["source.listen=a:1"], "source is no table"),
        ("[source]\nlisten = { port = 1 }", [], "[source] listen is of the wrong kind"),
        ("[source]\nlisten = [[1]]", [], "[source] listen is of the wrong kind"),
    ]:
        with pytest.raises(InvalidOption) as caught:
            config.load(write(tmp_path, text), overrides, KNOWN)
        assert said in str(caught.value)
    with pytest.raises(InvalidOption, match=r"subscribe is a list\. Write one text"):
        config.options({"subscribe": ["a", "b"]})
    with pytest.raises(InvalidOption, match=r"\[select\] columns is 5\. Write"):
        config.strings({"select": {"columns": 5}}, "select", "columns")


def test_marks_of_editors(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    path.write_bytes(b'\xef\xbb\xbf[source]\r\nlisten = "a:1"\r\n')
    assert config.load(path, [], KNOWN)["source"] == {"listen": "a:1"}
    path.write_bytes(b"\xff")
    with pytest.raises(InvalidOption, match="byte 0 is not UTF-8"):
        config.load(path, [], KNOWN)
