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

Tables: TypeAlias = Mapping[str, Mapping[str, Any]]
Known: TypeAlias = Mapping[str, frozenset[str] | None]


class ConfigError(Exception):
    """The configuration is wrong; the text is one line that names the file, table and key."""


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
        tables: dict[str, dict[str, Any]] = dict(tomllib.loads(path.read_text("utf-8")))
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}). Name it with --config"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not TOML ({error})") from None
    for override in overrides:
        name, equals, value = override.partition("=")
        table, dot, key = name.partition(".")
        if not (equals and dot and table and key):
            raise ConfigError(f"--set {override}: write TABLE.KEY=VALUE")
        tables.setdefault(table, {})[key] = value
    for table, values in tables.items():
        if table not in known:
            raise ConfigError(f"{path}: no table [{table}]{_nearest(table, known)}")
        if not isinstance(values, dict):
            raise ConfigError(f"{path}: {table} must be a table, written [{table}]")
        keys = known[table]
        for key in values:
            if keys is not None and key not in keys:
                raise ConfigError(f"{path}: no key {key} in [{table}]{_nearest(key, keys)}")
    return {table: tables.get(table, {}) for table in known}


def options(values: Mapping[str, Any]) -> dict[str, str]:
    """Option values as Spark wants them: strings, booleans in lower case."""
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in values.items()
    }


def required(tables: Tables, table: str, key: str) -> Any:
    try:
        return tables[table][key]
    except KeyError:
        raise ConfigError(f"[{table}] {key} is missing. Set it in the file or with --set") from None


def strings(tables: Tables, table: str, key: str) -> list[str]:
    """A list of strings; a single string stands for a list of one, a missing key for none."""
    value = tables[table].get(key, [])
    return [value] if isinstance(value, str) else [str(item) for item in value]


def _nearest(name: str, names: Mapping[str, Any] | frozenset[str]) -> str:
    near = difflib.get_close_matches(name, list(names), n=1)
    listed = ", ".join(sorted(names))
    return f"; did you mean {near[0]}?" if near else f"; there are: {listed}"
