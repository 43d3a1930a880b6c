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
        tables: dict[str, dict[str, Any]] = dict(tomllib.loads(path.read_text("utf-8-sig")))
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}). Name it with --config"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: is not TOML (byte {error.start} is not UTF-8). Save it as text in UTF-8"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not TOML ({error})") from None
    for override in overrides:
        name, equals, value = override.partition("=")
        table, dot, key = name.partition(".")
        if not (equals and dot and table and key):
            raise ConfigError(f"--set {override}: write TABLE.KEY=VALUE")
        if not isinstance(tables.setdefault(table, {}), dict):
            raise ConfigError(f"{path}: {table} must be a table, written [{table}]")
        tables[table][key] = value
    for table, values in tables.items():
        if table not in known:
            raise ConfigError(f"{path}: no table [{table}]{_nearest(table, known)}")
        if not isinstance(values, dict):
            raise ConfigError(f"{path}: {table} must be a table, written [{table}]")
        keys = known[table]
        for key, value in values.items():
            if keys is not None and key not in keys:
                raise ConfigError(f"{path}: no key {key} in [{table}]{_nearest(key, keys)}")
            if not _plain(value) and not (isinstance(value, list) and all(map(_plain, value))):
                raise ConfigError(
                    f"{path}: [{table}] {key} is of the wrong kind; write a text in quotes, a "
                    "number, true, false, or a list of texts"
                )
    return {table: tables.get(table, {}) for table in known}


def options(values: Mapping[str, Any]) -> dict[str, str]:
    """Option values as Spark wants them: strings, booleans in lower case.

    Raises: ConfigError for a list, which no option takes.
    """
    for key, value in values.items():
        if isinstance(value, list):
            raise ConfigError(f"{key} is a list; write one text, with commas between names")
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
    if isinstance(value, str | list):
        return [value] if isinstance(value, str) else [str(item) for item in value]
    raise ConfigError(f"[{table}] {key} is {value}; write a text in quotes, or a list of texts")


def _plain(value: Any) -> bool:
    return isinstance(value, str | bool | int | float)


def _nearest(name: str, names: Mapping[str, Any] | frozenset[str]) -> str:
    near = difflib.get_close_matches(name, list(names), n=1)
    listed = ", ".join(sorted(names))
    return f"; did you mean {near[0]}?" if near else f"; there are: {listed}"
