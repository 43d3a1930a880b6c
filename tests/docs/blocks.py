"""The blocks of code of all pages, and what the page says of each in a comment above it.

A page is plain Markdown. Where a test has to know more than the language of a block, an HTML
comment directly above it says so:

    <!-- file: intake.toml -->       the block is that file, for the blocks that follow
    <!-- same as: conf/x.yaml -->    the block is a copy of that file of the repository
    <!-- background: ready -->       lines of shell that go on when they have printed this word
    <!-- fails: AQUEDUCT_X -->       it ends with an error that says this
    <!-- hidden sh: true -->         lines of shell that readers need not see; or of Python
    <!-- shown by: first.py -->      the text is what that command, which goes on running, prints
    <!-- stop: first.py -->          Ctrl-C to that command, without a block

A block of text directly below a block that ran is what it prints; `…` in it stands for anything,
a line of it for any lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.support.repository import ROOT

_COMMENT = re.compile(
    r"<!--\s*(file|same as|background|fails|shown by|stop|hidden sh|hidden python):\s*(.*?)\s*-->",
    re.S,
)

STOP = "stop"
"""The language of a block that ends what goes on running."""


@dataclass(frozen=True)
class Block:
    """``number`` counts the blocks of a page below one heading from 1."""

    page: str
    heading: str
    number: int
    line: int
    language: str
    text: str
    file: str = ""
    same_as: str = ""
    background: str = ""
    fails: str = ""
    shown_by: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        return self.page, self.heading, self.number

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Every page of the site."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def blocks(page: str) -> list[Block]:
    return parsed(page, (ROOT / page).read_text("utf-8"))


def texts(page: str, language: str) -> list[str]:
    """What the blocks of one language hold."""
    return [block.text for block in blocks(page) if block.language == language]


def parsed(page: str, text: str) -> list[Block]:
    """The blocks of a page, in their order."""
    found: list[Block] = []
    heading, said, numbers = "", {}, dict[str, int]()
    for token, content in _parts(text):
        if token.type == "heading_open":
            heading, said = content, {}
        elif token.type == "html_block":
            for kind, value in _COMMENT.findall(token.content):
                said[kind.replace(" ", "_")] = value
            for kind, language in (("hidden_sh", "sh"), ("hidden_python", "python"), ("stop", "")):
                if text := said.pop(kind, ""):
                    line = token.map[0] + 1
                    found.append(Block(page, heading, 0, line, language or STOP, text, **said))
                    said = {}
        elif token.type in ("fence", "code_block"):
            numbers[heading] = numbers.get(heading, 0) + 1
            language = token.info.split()[0] if token.info else ""
            place = (page, heading, numbers[heading], token.map[0] + 1)
            found.append(Block(*place, language, token.content, **said))
            said = {}
    return found


def _parts(text: str) -> Iterator[tuple[Token, str]]:
    """Each token of a page, and the text of its heading where it begins one."""
    tokens = MarkdownIt().parse(text)
    for token, behind in pairwise([*tokens, Token("end", "", 0)]):
        yield token, behind.content if token.type == "heading_open" else ""
