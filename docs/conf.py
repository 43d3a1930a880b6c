"""The site of these pages, which ``make docs`` builds: plain Markdown, which reads well without it.

The source directory is the repository, so that links from a page to README.md, to conf/ or to code
are the same ones here and on a code host.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]

project = "Aqueduct for Spark"
author = "Aqueduct developers"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "version"
]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [".*", "*-out", "*-out.md", "mutants", "tests", "jobs", "aqueduct*"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the texts say what a thing is; the types are in the code
autodoc_class_signature = "separated"
nitpick_ignore_regex = [(r"py:.*", r".*")]

html_theme = "furo"
html_title = f"{project} {version}"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_css_files = ["site.css"]
html_static_path = ["site"]
html_additional_pages = {"index": "front.html"}
templates_path = ["site"]
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "native"


NAMES = {
    f"{Path(path).name}.md": name
    for name, path in re.findall(
        r"^\* \[([^\]]+)\]\(([\w./-]+)\.md\)",
        (ROOT / "docs/index.md").read_text("utf-8"),
        re.MULTILINE,
    )
}
"""What docs/index.md calls the pages."""


def with_names(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Call pages by their names where the Markdown, for who reads files, has those of the files."""

    def named(link: re.Match[str]) -> str:
        return f"[{NAMES.get(link[1], link[1])}]({link[2]})"

    source[0] = re.sub(r"\[(?:docs/)?([\w-]+\.md)\]\(([^)\s]+)\)", named, source[0])


def with_toctrees(_app: Sphinx, page: str, source: list[str]) -> None:
    """Make the lists of docs/index.md the tree of the site: each list below a heading is a part."""
    if page != root_doc:
        return
    trees = []
    for part in re.split(r"^## ", source[0], flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        linked = re.findall(r"^\* \[([^\]]+)\]\(([\w./-]+)\.md\)", body, re.MULTILINE)
        tree = "\n".join(f"{name} <{path}>" for name, path in linked)
        trees.append(f"```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{tree}\n```\n")
    source[0] += "\n" + "\n".join(trees)


def setup(app: Sphinx) -> None:
    app.connect("source-read", with_names)
    app.connect("source-read", with_toctrees)
    app.add_lexer("frames", TextLexer)
