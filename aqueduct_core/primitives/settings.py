"""Settings, each defined once: an annotated field of a section says its name, type, bounds, unit,
default and text. From that follow its option, its key in JSON and TOML, and how it is refused.

A name in Python is the option's in snake case; the key is the option's, too, unless the field has
one of its own. Times are seconds, sizes bytes.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta

from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives import units

Value = TypeVar("Value", bound="Section")

_SECRET = re.compile("token|credentials|payload|headers", re.IGNORECASE)
"""Keys whose values may hold a secret: no error shows them."""

SHORTEST_PART = 4
"""Characters of a name that is looked for within others."""


def size(low: str, high: str, text: str) -> Meta:
    """Bytes, from ``low`` to ``high`` as people write them."""
    bounds = {"unit": "size", "low": low, "high": high}
    return Meta(ge=units.size(low), le=units.size(high), description=text, extra=bounds)


def duration(low: str, high: str | None, text: str) -> Meta:
    """Seconds, from ``low`` to ``high`` as people write them; None: however long."""
    bounds = {"unit": "duration", "low": low, "high": high}
    most = None if high is None else units.duration(high)
    return Meta(ge=units.duration(low), le=most, description=text, extra=bounds)


def number(low: float, high: float, text: str) -> Meta:
    """From ``low`` to ``high``."""
    return Meta(ge=low, le=high, description=text, extra={"low": low, "high": high})


def plain(text: str) -> Meta:
    """Whatever its type holds."""
    return Meta(description=text)


@dataclass(frozen=True, slots=True)
class Setting:
    """One of them, as its section defines it.

    Args:
        name: the option, with that of its section before it.
        key: in JSON and TOML, within its section.
        field: in Python.
        kind: its type with the bounds.
        unit: ``size``, ``duration`` or "".
        low, high: the bounds as people write them; None: there are none.
    """

    name: str
    key: str
    field: str
    kind: Any
    default: Any
    unit: str
    low: Any
    high: Any
    text: str

    @property
    def values(self) -> Any:
        """Its type without the bounds."""
        return get_args(self.kind)[0]

    @property
    def written(self) -> str:
        """The default as people write it."""
        if self.unit == "size":
            return units.written_size(self.default)
        if self.unit == "duration":
            return units.written_duration(self.default)
        return str(self.default).lower() if isinstance(self.default, bool) else str(self.default)


class Section(msgspec.Struct, frozen=True, rename="camel"):
    """Settings that belong together, as a frozen value that is legal when it exists.

    Raises: InvalidOption.BAD_VALUE: a value of another type, or outside its bounds.
    """

    prefix: ClassVar[str] = ""
    """Of the names of its options."""

    def __post_init__(self) -> None:
        for setting in settings_of(type(self)):
            value = getattr(self, setting.field)
            try:
                msgspec.convert(value, setting.kind)
            except msgspec.ValidationError as error:
                bounds = f", allowed are {setting.low} to {setting.high}" if setting.high else ""
                raise InvalidOption(
                    "BAD_VALUE",
                    f"option {setting.name} is {value!r}: {str(error).lower()}{bounds}",
                    "Correct it and start again",
                ) from None

    @classmethod
    def of_options(cls, found: Mapping[str, Any], **more: Any) -> Self:
        """From values by option; those that are missing or None have their defaults."""
        given = {each.field: found.get(each.name) for each in settings_of(cls)}
        return cls(**{field: value for field, value in given.items() if value is not None}, **more)


@cache
def settings_of(kind: type[Section]) -> tuple[Setting, ...]:
    """Those that a section defines, in order."""
    return tuple(
        Setting(
            name=kind.prefix + _camel(field.name),
            key=field.encode_name,
            field=field.name,
            kind=field.type,
            default=field.default,
            unit=(meta.extra or {}).get("unit", ""),
            low=(meta.extra or {}).get("low"),
            high=(meta.extra or {}).get("high"),
            text=meta.description or "",
        )
        for field in msgspec.structs.fields(kind)
        for each in (field.type, *get_args(field.type))
        for meta in getattr(each, "__metadata__", ())
    )


def from_mapping(data: Mapping[str, Any], kind: type[Value]) -> Value:
    """A section of what JSON or TOML had.

    Raises:
        InvalidOption: UNKNOWN for a key that none of the sections has, BAD_VALUE.
    """
    check_known(data, kind)
    _check_whole(data, kind)
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        where = str(error).rpartition("`$.")[2].rstrip("`")
        raise _wrong(data, kind, where) from None


def _wrong(data: Mapping[str, Any], kind: type[Section], where: str) -> InvalidOption:
    """The refusal of the value at ``where``, such as ``limits.memory`` or ``selfSigned[1]``."""
    value: Any = data
    found: Any = kind
    allowed = "of another kind"
    for part in re.findall(r"[^.\[\]]+", where):
        if part.isdigit():
            value, allowed = value[int(part)], "a text in quotes"
            continue
        value = value.get(part) if isinstance(value, Mapping) else value
        settings = {each.key: each for each in settings_of(found)}
        below = _sections(found)
        if part in settings:
            allowed = _allowed(settings[part])
        elif part in below:
            allowed, found = f"a table, written [{part}]", below[part]
        elif types := [each for each in msgspec.structs.fields(found) if each.encode_name == part]:
            allowed = _of_type(types[0].type)
    shown = "" if _SECRET.search(where) else f" is {json.dumps(value, default=str)};"
    return InvalidOption(
        "BAD_VALUE",
        f"the settings hold a value of the wrong kind: key {where}{shown} it must be {allowed}",
        f"Correct {where}",
    )


def _allowed(setting: Setting) -> str:
    """What a setting may be, to complete "it must be …"."""
    words = {"size": "a size", "duration": "a duration", "": "a number"}[setting.unit]
    if setting.unit or setting.low is not None:
        words = "a whole number" if setting.values is int and not setting.unit else words
        most = "up" if setting.high is None else f"to {setting.high}"
        return f"{words} from {setting.low} {most}"
    return _of_type(setting.values)


def _of_type(kind: Any) -> str:
    parts = {kind, *get_args(kind), get_origin(kind)}
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f'"{each}"' for each in get_args(kind))
    for each, words in (
        (tuple, 'a list, such as ["a", "b"]'),
        (bool, "true or false"),
        (int, "a whole number"),
        (float, "a number"),
    ):
        if each in parts or any(get_origin(part) is each for part in parts):
            return words
    return "a text in quotes"


def _check_whole(data: Mapping[str, Any], kind: type[msgspec.Struct], prefix: str = "") -> None:
    """Raises InvalidOption.MISSING for the first key that has to be there."""
    for field in msgspec.structs.fields(kind):
        if field.required and field.encode_name not in data:
            key = f"{prefix}{field.encode_name}"
            raise InvalidOption("MISSING", f"the settings hold no key {key}", f"Set {key}")
    for key, below in _sections(kind).items():
        if isinstance(data.get(key), Mapping):
            _check_whole(data[key], below, f"{prefix}{key}.")


def without_units(data: Mapping[str, Any], kind: type[Section]) -> dict[str, Any]:
    """The same with seconds and bytes as numbers: where people write, they write a unit.

    Raises: InvalidOption.BAD_VALUE.
    """
    units_of = {each.key: each for each in settings_of(kind) if each.unit}
    below = _sections(kind)
    result: dict[str, Any] = {}
    for key, value in data.items():
        if key in units_of:
            result[key] = _parsed(units_of[key], value)
        elif key in below and isinstance(value, Mapping):
            result[key] = without_units(value, below[key])
        else:
            result[key] = value
    return result


def _parsed(setting: Setting, value: Any) -> float:
    parse = units.size if setting.unit == "size" else units.duration
    if not isinstance(value, str):
        example = {"size": "64m", "duration": "10s"}[setting.unit]
        example = example if setting.default is None else setting.written
        raise InvalidOption(
            "BAD_VALUE",
            f"{setting.name} is {json.dumps(value, default=str)}, without a unit",
            f'Write it as text, as in "{example}"',
        )
    try:
        found = parse(value)
    except ValueError as error:
        raise InvalidOption(
            "BAD_VALUE", f"{setting.name}: {error}", f"Correct {setting.name}"
        ) from None
    if found < parse(setting.low) or (setting.high is not None and found > parse(setting.high)):
        raise InvalidOption(
            "BAD_VALUE",
            f"{setting.name} is {value!r}; it must be {_allowed(setting)}",
            f"Correct {setting.name}",
        )
    return found


def check_known(data: Mapping[str, Any], kind: type[msgspec.Struct], prefix: str = "") -> None:
    """Raises InvalidOption.UNKNOWN for the first key that no section has."""
    keys = {field.encode_name for field in msgspec.structs.fields(kind)}
    below = _sections(kind)
    for key, value in data.items():
        if key not in keys:
            raise InvalidOption(
                "UNKNOWN",
                f"the settings hold the unknown key {prefix}{key}",
                f"The nearest one is {prefix}{near}"
                if (near := nearest(key, keys))
                else f"Known here: {', '.join(sorted(keys))}",
            )
        for each in value if isinstance(value, list | tuple) else (value,):
            if key in below and isinstance(each, Mapping):
                check_known(each, below[key], f"{prefix}{key}.")


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of the names that may be meant by one that is not among them."""
    plain = {each.lower(): each for each in names}
    wanted = name.lower()
    near = difflib.get_close_matches(wanted, plain, n=1, cutoff=0.6)
    if not near and len(wanted) >= SHORTEST_PART:
        near = [each for each in plain if wanted in each]
    return plain[near[0]] if near else None


def _sections(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The structs within one, by key."""
    return {
        field.encode_name: each
        for field in msgspec.structs.fields(kind)
        for each in (field.type, *get_args(field.type))
        if isinstance(each, type) and issubclass(each, msgspec.Struct)
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
