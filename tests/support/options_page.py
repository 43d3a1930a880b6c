"""Makes docs/options.md, docs/quicr-options.md and docs/telehash-options.md from the tables of
options of the formats: `python -m tests.support.options_page`.

With ``--check`` nothing is written, and a page that is out of date ends with exit code 1.
"""

from __future__ import annotations

import sys

from aqueduct_spark.formats.aqueduct.options import AQUEDUCT_OPTIONS
from aqueduct_spark.formats.quicr.options import QUICR_OPTIONS
from aqueduct_spark.formats.telehash.options import TELEHASH_OPTIONS
from aqueduct_spark.options.spec import OptionKind, OptionSpec
from aqueduct_spark.options.table import OptionTable
from tests.support.repository import ROOT

KINDS = {
    OptionKind.STREAM_READ: "`readStream`",
    OptionKind.BATCH_READ: "`read`",
    OptionKind.STREAM_WRITE: "`writeStream`",
    OptionKind.BATCH_WRITE: "`write`",
}
HEAD = """# {title}

<!-- Made by `python -m tests.support.options_page` from `aqueduct_spark/options/*_specs.py` and
`aqueduct_spark/formats/{table.format}/options.py`; do not edit. -->

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


PAGES = {
    ROOT / "docs" / "options.md": ("Options", AQUEDUCT_OPTIONS),
    ROOT / "docs" / "quicr-options.md": ("Options of format quicr", QUICR_OPTIONS),
    ROOT / "docs" / "telehash-options.md": ("Options of format telehash", TELEHASH_OPTIONS),
}


def page(title: str, of: OptionTable) -> str:
    built = [spec for spec in of.specs if spec.built]
    planned = [spec for spec in of.specs if not (spec.built or spec.reason)]
    parts = [HEAD.format(title=title, table=of), *table(built, KINDS)]
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
    old = 0
    for path, given in PAGES.items():
        text = page(*given)
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            name = path.relative_to(ROOT)
            print(f"{name} is out of date: run python -m tests.support.options_page")
            old = 1
    return old


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
