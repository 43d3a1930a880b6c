"""Every block of code of every page runs, is read by what it is for, or has a reason not to."""

from __future__ import annotations

import argparse
import ast
import configparser
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from aqueduct_core.cli.main import build_parser
from aqueduct_core.intake import config_file
from tests.docs.blocks import STOP, Block, blocks, pages
from tests.docs.what_runs import (
    ELSEWHERE,
    IN_A_SESSION,
    NOT_RUN,
    WITH_THE_WHEEL,
    WITHOUT_A_SPACE,
    not_run,
)
from tests.support.repository import ROOT

ALL = [block for page in pages() for block in blocks(page)]
WALKED = (*IN_A_SESSION, *WITH_THE_WHEEL, *WITHOUT_A_SPACE)
READ = {"toml", "yaml", "json", "ini", "sql"}
"""Languages whose blocks are read here, where nothing runs them."""


def test_every_block_is_accounted_for() -> None:
    forgotten = [
        str(block)
        for block in ALL
        if not (
            (block.page in WALKED and block.language in ("sh", "python", "text", STOP))
            or block.language in READ
            or block.same_as
            or block.language.startswith("{")  # what Sphinx makes of docstrings
            or runs_elsewhere(block)
            or not_run(block)
        )
    ]
    assert not forgotten, "no test runs these blocks: see tests/docs/what_runs.py"


def test_reasons_are_of_blocks_that_are_there() -> None:
    assert {block.key for block in ALL} >= set(NOT_RUN)
    assert {block.page for block in ALL} >= {*ELSEWHERE, *WALKED}


def runs_elsewhere(block: Block) -> bool:
    """Whether the tests of its page name the page, and the heading of the block; or the language,
    where they go by no heading."""
    if block.page not in ELSEWHERE:
        return False
    source = "".join((ROOT / test).read_text("utf-8") for test in ELSEWHERE[block.page].split())
    headings = {each.heading for each in ALL if each.page == block.page}
    named = {heading for heading in headings if f'"{heading}"' in source}
    found = block.heading in named if named else re.search(rf"\b{block.language}\b", source)
    return Path(block.page).name in source and bool(found)


@pytest.mark.parametrize("page", pages())
def test_a_file_is_named_above_what_is_in_it(page: str) -> None:
    """For its reader: the comment that says so to the tests is not shown."""
    text = (ROOT / page).read_text("utf-8")
    for above, file in re.findall(r"([^\n]*)\n\n<!-- file: (\S+) -->", text):
        assert Path(file).name in above, f"{page}: name {file} in the line above it"


@pytest.mark.parametrize("block", [each for each in ALL if each.language in READ], ids=str)
def test_data_is_read_by_what_it_is_for(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    match block.language:
        case "json":
            for line in [block.text] if "\n " in block.text else block.text.splitlines():
                assert json.loads(line) is not None
        case "yaml":
            assert all(document for document in yaml.safe_load_all(block.text))
        case "ini":
            parser = configparser.ConfigParser(strict=False, interpolation=None)
            parser.read_string(block.text)
            assert parser.sections()
        case "toml":
            file = tmp_path / "file.toml"
            file.write_text(re.sub(r'"/(data|var/lib)/', f'"{tmp_path}/', block.text))
            settings, _ = config_file.read(file)
            assert settings.spool


@pytest.mark.parametrize("block", [each for each in ALL if each.language == "python"], ids=str)
def test_python_is_python(block: Block) -> None:
    assert ast.parse(block.text).body


def commands(text: str) -> Iterator[list[str]]:
    """The commands of lines of shell, without what their output goes to."""
    for line in text.replace("\\\n", " ").splitlines():
        for part in re.split(r"\|\||&&|[|;]", re.sub(r"\s#\s.*", "", line)):
            words = shlex.split(re.sub(r"[<>]+\s*\S+", "", part), comments=True)
            while words and re.fullmatch(r"\w+=.*", words[0]):
                words.pop(0)
            if words:
                yield words


@pytest.mark.parametrize("block", [each for each in ALL if each.language == "sh"], ids=str)
def test_commands_that_are_shown_are_understood(
    block: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs shows that by itself; this is for what does not, and for pages of others."""

    def refuse(_parser: argparse.ArgumentParser, message: str) -> None:
        pytest.fail(f"{block}: {message}")

    monkeypatch.setattr(argparse.ArgumentParser, "error", refuse)
    parser = build_parser()
    for words in commands(block.text):
        program = Path(words[0]).name
        if program == "aqueduct":
            assert parser.parse_args([each for each in words[1:] if each != "…"])
        elif program == "spark-submit":
            files = [word for word in words if word.startswith(("jobs/", "conf/"))]
            assert all((ROOT / file).exists() for file in files), block
