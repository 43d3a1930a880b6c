"""Makes docs/options.md from the table of options: `python -m tests.support.options_page`.

With ``--check`` nothing is written, and a page that is out of date ends with exit code 1.
"""

from __future__ import annotations

import sys

from aqueduct_spark.formats.aqueduct.options import AQUEDUCT_OPTIONS
from aqueduct_spark.options.spec import OptionKind, OptionSpec
from tests.support.repository import ROOT

PAGE = ROOT / "docs" / "options.md"
KINDS = {
    OptionKind.STREAM_READ: "`readStream`",
    OptionKind.BATCH_READ: "`read`",
    OptionKind.STREAM_WRITE: "`writeStream`",
    OptionKind.BATCH_WRITE: "`write`",
}
HEAD = """# Options

<!-- Made by `python -m tests.support.options_page` from `aqueduct_spark/options/*_specs.py` and
`aqueduct_spark/formats/aqueduct/options.py`; do not edit. -->

Keys are case-insensitive, values are strings. Durations need a unit (`10s`, `15m`, `20ms`), sizes
too (`64m`, `10g`). An unknown key, a value that cannot be read, a missing or conflicting option is
an error at `load()`, `start()` or `save()`, before anything runs.
"""


def table(specs: list[OptionSpec], kinds: dict[OptionKind, str]) -> list[str]:
    lines = ["| Option | Default | For | Meaning |", "|---|---|---|---|"]
    for spec in specs:
        uses = ", ".join(name for kind, name in kinds.items() if kind in (spec.built or spec.kinds))
        default = "–" if spec.default is None else f"`{spec.default}`" if spec.default else "empty"
        meaning = spec.doc.replace("|", "\\|")
        lines.append(f"| `{spec.name}` | {default} | {uses} | {meaning} |")
    return lines


def page(specs: tuple[OptionSpec, ...]) -> str:
    built = [spec for spec in specs if spec.built]
    planned = [spec for spec in specs if not spec.built]
    parts = [HEAD, *table(built, KINDS)]
    if planned:
        parts += [
            "",
            "## Known, and not in this version",
            "",
            "These names are refused with a text that says so.",
            "",
            *table(planned, KINDS),
        ]
    return "\n".join(parts) + "\n"


def main(arguments: list[str]) -> int:
    text = page(AQUEDUCT_OPTIONS.specs)
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print("docs/options.md is out of date: run python -m tests.support.options_page")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
