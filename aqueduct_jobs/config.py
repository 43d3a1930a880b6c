"""The configuration file of a job: TOML tables of options, with ``--set table.key=value`` on top.

A job names the tables it knows and the keys of each (None: any key, for options that are passed on
to Spark). Anything else is refused by name, so that a slip of the pen is not silently ignored.
"""

from __future__ import annotations

import argparse
import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from aqueduct_core.errors import InvalidOption

Tables: TypeAlias = Mapping[str, Mapping[str, Any]]
Known: TypeAlias = Mapping[str, frozenset[str] | None]


def arguments(job: str, docstring: str | None) -> argparse.ArgumentParser:
    """The command line of ``job``, whose module has the docstring ``docstring``."""
    parser = argparse.ArgumentParser(prog=job, description=(docstring or "").partition("\n")[0])
    parser.add_argument(
        "--config",
        type=Path,
        required=True,
        help=f"TOML file; `aqueduct conf {job}.toml` prints one to begin with",
    )
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="TABLE.KEY=VALUE",
        help="override one value of the file; may be repeated",
    )
    return parser


def load(path: Path, overrides: Sequence[str], known: Known) -> Tables:
    """Read ``path``, apply ``overrides`` and check every table and key against ``known``."""
    try:
        tables: dict[str, dict[str, Any]] = dict(tomllib.loads(path.read_text("utf-8-sig")))
    except OSError as error:
        raise InvalidOption(
            "BAD_VALUE",
            f"the configuration {path} cannot be read: {error.strerror}",
            "Name a readable file with --config",
        ) from None
    except UnicodeDecodeError as error:
        raise InvalidOption(
            "BAD_VALUE",
            f"the configuration {path} is no TOML: byte {error.start} is not UTF-8",
            "Save it as text in UTF-8",
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidOption(
            "BAD_VALUE", f"the configuration {path} is no TOML: {error}", "Correct that line"
        ) from None
    for override in overrides:
        name, equals, value = override.partition("=")
        table, dot, key = name.partition(".")
        if not (equals and dot and table and key):
            raise InvalidOption(
                "BAD_VALUE", f"--set {override} sets nothing", "Write --set TABLE.KEY=VALUE"
            )
        if not isinstance(tables.setdefault(table, {}), dict):
            raise _no_table(path, table)
        tables[table][key] = value
    for table, values in tables.items():
        if table not in known:
            raise InvalidOption(
                "UNKNOWN",
                f"the configuration {path} has no use for table [{table}]",
                _nearest(table, known),
            )
        if not isinstance(values, dict):
            raise _no_table(path, table)
        keys = known[table]
        for key, value in values.items():
            if keys is not None and key not in keys:
                raise InvalidOption(
                    "UNKNOWN",
                    f"the configuration {path} has no use for key {key} in [{table}]",
                    _nearest(key, keys),
                )
            if not _plain(value) and not (isinstance(value, list) and all(map(_plain, value))):
                raise InvalidOption(
                    "BAD_VALUE",
                    f"the configuration {path}: [{table}] {key} is of the wrong kind",
                    "Write a text in quotes, a number, true, false, or a list of texts",
                )
    return {table: tables.get(table, {}) for table in known}


def options(values: Mapping[str, Any]) -> dict[str, str]:
    """Option values as Spark wants them: strings, booleans in lower case.

    Raises: InvalidOption for a list, which no option takes.
    """
    for key, value in values.items():
        if isinstance(value, list):
            raise InvalidOption(
                "BAD_VALUE", f"{key} is a list", "Write one text, with commas between names"
            )
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in values.items()
    }


def required(tables: Tables, table: str, key: str) -> Any:
    try:
        return tables[table][key]
    except KeyError:
        raise InvalidOption(
            "MISSING", f"[{table}] {key} is missing", "Set it in the file, or with --set"
        ) from None


def strings(tables: Tables, table: str, key: str) -> list[str]:
    """A list of strings; a single string stands for a list of one, a missing key for none."""
    value = tables[table].get(key, [])
    if isinstance(value, str | list):
        return [value] if isinstance(value, str) else [str(item) for item in value]
    raise InvalidOption(
        "BAD_VALUE", f"[{table}] {key} is {value}", "Write a text in quotes, or a list of texts"
    )


def _no_table(path: Path, table: str) -> InvalidOption:
    what = f"the configuration {path}: {table} is no table"
    return InvalidOption("BAD_VALUE", what, f"Write [{table}] and its keys below")


def _plain(value: Any) -> bool:
    return isinstance(value, str | bool | int | float)


def _nearest(name: str, names: Mapping[str, Any] | frozenset[str]) -> str:
    near = difflib.get_close_matches(name, list(names), n=1)
    listed = ", ".join(sorted(names))
    return f"The nearest one is {near[0]}" if near else f"There are {listed}"
