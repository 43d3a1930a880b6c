"""``aqueduct conf``: the configuration files that come with the package, to begin with."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import aqueduct_core

FOLDER = Path(aqueduct_core.__file__).with_name("conf")


EXAMPLES = [
    (
        "the settings of a job, to begin with",
        "aqueduct conf ingest.toml > ingest.toml",
    ),
]


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "conf",
        help="print a configuration file to begin with",
        description="Prints a configuration file that comes with the package: settings of an "
        "intake, of the jobs, and of Spark. Without a name: a line for each of them. "
        "Example: aqueduct conf ingest.toml > ingest.toml",
        examples=EXAMPLES,
    )
    parser.add_argument("name", nargs="?", choices=names(), metavar="NAME")
    parser.add_argument(
        "--path", action="store_true", help="print where it is, in place of what it holds"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.path:
        print(FOLDER / (options.name or ""))
    elif options.name is None:
        width = max(map(len, names()))
        for name in names():
            print(f"{name:{width}}  {_purpose(FOLDER / name)}")
    else:
        sys.stdout.write((FOLDER / options.name).read_text("utf-8"))
    return 0


def names() -> list[str]:
    """The files by their paths in the folder."""
    found = (path for path in FOLDER.rglob("*") if path.is_file())
    return sorted(path.relative_to(FOLDER).as_posix() for path in found)


def _purpose(path: Path) -> str:
    """The first line of a file, which is a comment; of a dashboard, which has none, its title."""
    text = path.read_text("utf-8")
    if path.suffix == ".json":
        return f"A dashboard of Grafana: {json.loads(text)['title']}"
    return text.partition("\n")[0].removeprefix("#").strip()
