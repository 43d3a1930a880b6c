"""Make docs/command-line.md and the manual pages in docs/man from the parsers of ``aqueduct``.

python -m tests.support.command_line_pages            write them
python -m tests.support.command_line_pages --check    fail where one is not what it would be
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

from argparse_manpage.manpage import Manpage

from aqueduct_core.cli.console.arguments import VerbParser
from aqueduct_core.cli.main import build_parser
from tests.support.repository import ROOT

PAGE = ROOT / "docs" / "command-line.md"
MANUAL = ROOT / "docs" / "man"

HEAD = """# Command line

<!-- Made by `python -m tests.support.command_line_pages` from the parsers of the verbs; do not
edit. -->

`aqueduct VERB --help` says the same, and so do `man aqueduct` and `man aqueduct-VERB` where the
environment is activated. Options are those of kcat where the two do the same: `-f` a format, `-o`
where to begin, `-c` how many, `-e` until the end, `-J` JSON, `-q` quiet.

On a terminal verbs draw tables, colours (not with `NO_COLOR`) and progress; into a pipe they print
plain lines. Exit codes: 0 done; 1 an error, told in one line that begins with its
[name](errors.md); 2 wrong usage; 130 and 143 interrupted by Ctrl-C and SIGTERM; 141 the reader of
the output has left.

| To complete verbs, options and files | once, in the file that the shell reads when it starts |
|---|---|
| bash | `eval "$(aqueduct --print-completion bash)"` |
| zsh | `eval "$(aqueduct --print-completion zsh)"`, behind `compinit` |
| fish | `aqueduct --print-completion fish \\| source` |
"""


class Verb(NamedTuple):
    """``name`` as it is written behind ``aqueduct``; ``help`` in a few words."""

    name: str
    help: str
    parser: VerbParser


def verbs(parser: argparse.ArgumentParser | None = None, above: str = "") -> Iterator[Verb]:
    """All that do something, in the order of the help."""
    for action in (parser or build_parser())._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help or "" for each in action._choices_actions}
            for name, verb in action.choices.items():
                below = list(verbs(verb, f"{above}{name} "))
                yield from below or [Verb(above + name, helps[name], verb)]


def page() -> str:
    found = list(verbs())
    lines = [HEAD, "| Verb | |", "|---|---|"]
    lines += [
        f"| [`{verb.name}`](#{verb.name.replace(' ', '-')}) | {verb.help} |" for verb in found
    ]
    for verb in found:
        lines += ["", f"## {verb.name}", "", _prose(verb.parser.description or ""), ""]
        lines += _examples(verb.parser)
        lines += _options(verb.parser)
    return "\n".join(lines) + "\n"


def _prose(text: str) -> str:
    """Without what argparse or Markdown would take for something else."""
    return text.replace("%%", "%").replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")


def _examples(parser: VerbParser) -> list[str]:
    shown = [line for what, command in parser.examples for line in (f"# {what}", command)]
    return ["```sh", *shown, "```", ""]


def _options(parser: VerbParser) -> list[str]:
    lines = ["| | |", "|---|---|"]
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        metavar = action.metavar
        if metavar is None and action.choices is not None:
            metavar = ",".join(map(str, action.choices))
        shown = str(metavar or action.dest.upper())
        names = ", ".join(action.option_strings)
        written = f"{names} {shown}" if names and action.nargs != 0 else names or shown
        help = (action.help or "").replace("%(default)s", str(action.default))
        lines.append(f"| `{written}` | {_prose(help)} |")
    return lines


def manual_pages() -> dict[str, str]:
    """The text of each page, by the name of its file: one of each verb, and of what has verbs."""
    os.environ["COLUMNS"] = "90"
    pages = {}
    for verb in verbs():
        shown = "\n".join(f"# {what}\n{command}\n" for what, command in verb.parser.examples)
        shown = shown.replace("\\", "\\\\").replace("-", "\\-")
        made = _manual_page(verb.name, verb.help, verb.parser)
        made.add_section("examples", "=", f".nf\n{shown}.fi")
        pages[_file(verb.name)] = _roff(str(made))
    parser = build_parser()
    [spool] = [
        action.choices["spool"]
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    for name, help, above in (
        ("", "message channels over QUIC, on the command line", parser),
        ("spool", "look into the durable log of intakes", spool),
    ):
        text = str(_manual_page(name, help, above)).partition("\n.SH COMMAND")[0]
        below = [verb.name for verb in verbs() if verb.name.startswith(name)]
        others = [_file(each).removesuffix(".1").replace("-", "\\-") for each in below]
        also = ", ".join(f"\\fB{each}\\fR(1)" for each in others)
        pages[_file(name)] = _roff(f"{text}\n.SH SEE ALSO\n{also}\n")
    return pages


def _manual_page(name: str, help: str, parser: argparse.ArgumentParser) -> Manpage:
    parser.epilog = None
    made = Manpage(parser)
    made.description, made.date, made.source = help, "", "Aqueduct for Spark"
    made.manual, made.prog = "Aqueduct", _file(name).removesuffix(".1")
    return made


def _file(name: str) -> str:
    return "-".join(["aqueduct", *name.split()]) + ".1"


def _roff(text: str) -> str:
    """A line that begins with a quote would be a command."""
    return text.replace("\n'", "\n\\&'")


def main(arguments: list[str]) -> int:
    made = {PAGE: page()} | {MANUAL / name: text for name, text in manual_pages().items()}
    stale = [path for path in MANUAL.glob("*") if path not in made]
    if "--check" not in arguments:
        MANUAL.mkdir(exist_ok=True)
        for path in stale:
            path.unlink()
        for path, text in made.items():
            path.write_text(text, encoding="utf-8")
        return 0
    for path, text in made.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
    for path in stale:
        print(
            f"{path.relative_to(ROOT)} is out of date: python -m tests.support.command_line_pages"
        )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
