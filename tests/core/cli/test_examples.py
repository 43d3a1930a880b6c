"""The examples of docs/command-line.md, which end the help of each verb, are commands that are read
(its blocks of sh). What they do is shown by the tests of the verbs."""

from __future__ import annotations

import re
import shlex

import pytest

from aqueduct_core.cli.main import build_parser, main
from tests.support.command_line_pages import Verb, manual_pages, verbs

VERBS = list(verbs())


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_each_verb_has_examples_of_itself(verb: Verb) -> None:
    assert verb.parser.examples
    for _, line in verb.parser.examples:
        commands = [
            words[1:]
            for part in re.split(r" \| | && ", line)
            if (words := shlex.split(re.sub(r" > \S+$", "", part)))[0] == "aqueduct"
        ]
        assert commands, line
        for command in commands:
            build_parser().parse_args(command)  # a usage error ends with SystemExit
        assert any(command[: len(verb.name.split())] == verb.name.split() for command in commands)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_help_ends_with_the_examples_as_they_are_written(
    verb: Verb, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main([*verb.name.split(), "--help"])
    assert end.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    begin = lines.index("examples:")
    written = [line for what, command in verb.parser.examples for line in (f"# {what}", command)]
    assert [line.removeprefix("  ") for line in lines[begin + 1 :]] == written


def test_each_verb_has_a_manual_page_with_its_options() -> None:
    pages = manual_pages()
    assert len(pages) == len(VERBS) + 2
    for verb in VERBS:
        assert f"aqueduct-{verb.name.replace(' ', '-')}".replace("-", "\\-") in pages["aqueduct.1"]
    assert "what each query is done with" in pages["aqueduct-spool.1"]
    assert not any(line.startswith("'") for page in pages.values() for line in page.splitlines())
    for verb in VERBS:
        page = pages[f"aqueduct-{verb.name.replace(' ', '-')}.1"].replace("\\-", "-")
        assert f"aqueduct-{verb.name.replace(' ', '-')} - {verb.help}" in page
        for action in verb.parser._actions:
            for option in action.option_strings:
                assert option in page or option in ("-h", "--help"), (verb.name, option)
        for _, command in verb.parser.examples:
            assert command.replace("\\", "\\\\") in page
