"""Parsers of option values: text in, a typed value out, ``ValueError`` with what is allowed.

The text of the ``ValueError`` completes the sentence "it must be …", so that one place can
name the option and the value.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args, get_origin

from aqueduct_core.flight.tickets import CANCELS
from aqueduct_core.primitives import units
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.primitives.settings import Setting

_BARE_NUMBER = re.compile(r"\d+(\.\d+)?")


class Endpoint(NamedTuple):
    """Whom to dial: one or more addresses of the same service, in the order of preference. Or where
    to listen: one address."""

    scheme: str
    addresses: tuple[HostPort, ...]

    def __str__(self) -> str:
        return f"{self.scheme}://" + ",".join(str(a) for a in self.addresses)

    def url(self, address: HostPort) -> str:
        """One of the addresses, as texts name it."""
        return f"{self.scheme}://{address}"


def text(value: str) -> str:
    """Any text but the empty one."""
    if not value.strip():
        raise ValueError("a text that is not empty")
    return value


def path(value: str) -> str:
    """An absolute path; a relative one starts at the working directory of the driver."""
    if not value.strip() or "://" in value:
        raise ValueError("the path of a local or mounted directory or file, without a scheme")
    return os.path.abspath(value)


def boolean(value: str) -> bool:
    match value.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("true or false")


def duration(value: str) -> float:
    """Seconds. The unit is never left out: ``20ms``, ``15s``, ``2m``, ``1h``, ``7d``."""
    try:
        return units.duration(value)
    except ValueError:
        allowed = _unit_hint(value, "a duration with a unit, such as 20ms, 15s or 2m")
        raise ValueError(allowed) from None


def positive_duration(value: str) -> float:
    seconds = duration(value)
    if seconds <= 0:
        raise ValueError("a duration above zero, such as 15s")
    return seconds


def duration_or_never(value: str) -> float | None:
    """A duration above zero, or ``never``: None."""
    if value.strip().lower() == "never":
        return None
    try:
        return positive_duration(value)
    except ValueError as error:
        raise ValueError(f"{error}, or never") from None


def duration_within(low: str, high: str) -> Callable[[str], float]:
    """A parser of durations from ``low`` to ``high``, both written as a user would."""

    def parse(value: str) -> float:
        seconds = duration(value)
        if not duration(low) <= seconds <= duration(high):
            raise ValueError(f"a duration from {low} to {high}")
        return seconds

    return parse


def size_within(low: str, high: str) -> Callable[[str], int]:
    """A parser of sizes from ``low`` to ``high``, both written as a user would."""

    def parse(value: str) -> int:
        count = size(value)
        if not size(low) <= count <= size(high):
            raise ValueError(f"a size from {low} to {high}")
        return count

    return parse


def short_text(most: int) -> Callable[[str], str]:
    """A parser of texts of 1 to ``most`` bytes in UTF-8."""

    def parse(value: str) -> str:
        if not value.strip() or len(value.encode()) > most:
            raise ValueError(f"a text of 1 to {most} bytes")
        return value

    return parse


def cursor_name(value: str) -> str:
    """A name that a user may give to a cursor: the position of a query that a spool keeps."""
    name = short_text(64)(value).strip()
    if name.endswith(CANCELS):
        raise ValueError(f"a name that does not end with {CANCELS}")
    return name


def size(value: str) -> int:
    """Bytes, in powers of 1024. The unit is never left out: ``512k``, ``64m``, ``10g``."""
    try:
        count = units.size(value)
    except ValueError:
        allowed = _unit_hint(value, "a size with a unit, such as 512k, 64m or 10g")
        raise ValueError(allowed) from None
    if count < 1:
        raise ValueError("a size of at least one byte, such as 64m")
    return count


def integer(low: int, high: int | None = None) -> Callable[[str], int]:
    """A parser of whole numbers from ``low`` to ``high``, both included."""
    allowed = f"a whole number from {low} to {high}" if high else f"a whole number from {low} up"

    def parse(value: str) -> int:
        if not re.fullmatch(r"-?\d{1,18}", value.strip()):
            raise ValueError(allowed)
        number = int(value)
        if number < low or (high is not None and number > high):
            raise ValueError(allowed)
        return number

    return parse


def ratio(value: str) -> float:
    return number(0.0, 1.0)(value)


def number(low: float, high: float) -> Callable[[str], float]:
    """A parser of numbers from ``low`` to ``high``, both included."""

    def parse(value: str) -> float:
        try:
            found = float(value)
        except ValueError:
            found = math.nan
        if not low <= found <= high:
            raise ValueError(f"a number from {low} to {high}")
        return found

    return parse


def of_setting(setting: Setting) -> Callable[[str], Any]:
    """The parser of a setting, by its type, unit and bounds."""
    if setting.unit == "size":
        return size_within(setting.low, setting.high)
    if setting.unit == "duration":
        return duration if setting.high is None else duration_within(setting.low, setting.high)
    if get_origin(setting.values) is Literal:
        return choice(*get_args(setting.values))
    if setting.values is bool:
        return boolean
    if setting.values is int:
        return integer(setting.low, setting.high)
    return number(setting.low, setting.high) if setting.values is float else text


def choice(*allowed: str) -> Callable[[str], str]:
    """A parser of one word out of ``allowed``, whatever its case."""
    words = {word.lower(): word for word in allowed}

    def parse(value: str) -> str:
        word = words.get(value.strip().lower())
        if word is None:
            raise ValueError("one of " + ", ".join(allowed))
        return word

    return parse


def listen_address(value: str) -> HostPort:
    """``address:port`` to bind; port 0 lets the system choose, ``[::1]:4433`` is IPv6."""
    return HostPort.parse(value)


def listening(*schemes: str) -> Callable[[str], Endpoint]:
    """A parser of an address to listen on as `listen_address` has it; with several schemes one of
    them may stand before it, and the first one does where none is written."""

    def parse(value: str) -> Endpoint:
        scheme, separator, rest = value.strip().partition("://")
        if len(schemes) == 1 or not separator:
            return Endpoint(schemes[0], (listen_address(value),))
        if scheme.lower() not in schemes:
            raise ValueError(
                "address:port, or " + " or ".join(f"{s}://address:port" for s in schemes)
            )
        return Endpoint(scheme.lower(), (listen_address(rest.rstrip("/")),))

    return parse


def endpoint(*schemes: str, bare: bool = False) -> Callable[[str], Endpoint]:
    """A parser of ``scheme://host:port[,host:port…]`` with one of the schemes. ``bare``: without
    one it is the first."""
    examples = (
        f"{each}://host:port, or several as {each}://host:port,host:port" for each in schemes
    )
    allowed = "; or ".join(examples)

    def parse(value: str) -> Endpoint:
        scheme, separator, rest = value.strip().partition("://")
        if bare and not separator:
            scheme, separator, rest = schemes[0], "://", scheme
        if not separator or scheme.lower() not in schemes:
            raise ValueError(allowed)
        parts = rest.rstrip("/").split(",")
        if any("://" in part for part in parts):  # not each with its scheme
            raise ValueError(allowed)
        return Endpoint(scheme.lower(), tuple(HostPort.parse(part, 1) for part in parts))

    return parse


def addresses(value: str) -> tuple[HostPort, ...]:
    """``host:port,…``, each once."""
    found = tuple(HostPort.parse(part, 1) for part in value.split(","))
    if len(set(found)) != len(found):
        raise ValueError("addresses that differ from each other")
    return found


def header_object(value: str) -> tuple[tuple[str, str], ...]:
    """A JSON object of texts, or of lists of texts for a key that is repeated, as pairs."""
    allowed = 'a JSON object of texts or lists of texts, such as {"accept":"json"}'
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError(allowed) from None
    if not isinstance(parsed, dict):
        raise ValueError(allowed)
    pairs = [
        (key, text)
        for key, given in parsed.items()
        for text in (given if isinstance(given, list) else [given])
    ]
    if not all(isinstance(text, str) for _, text in pairs):
        raise ValueError(allowed)
    return tuple(pairs)


def subscriptions(value: str) -> tuple[str, ...]:
    """A comma list of names, each once; the empty text is one empty name."""
    found = names(value) if value.strip() else ("",)
    if len(set(found)) != len(found):
        raise ValueError("names that differ from each other")
    return found


def pattern(value: str) -> str:
    """A regular expression, checked and given back as text."""
    try:
        re.compile(text(value))
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return value


def names(value: str) -> tuple[str, ...]:
    """A comma list; blanks around a name do not count."""
    found = tuple(part.strip() for part in value.split(","))
    if not all(found):
        raise ValueError("names with commas between them, such as a,b,c")
    return found


def _unit_hint(value: str, allowed: str) -> str:
    bare = _BARE_NUMBER.fullmatch(value.strip()) is not None
    return f"{allowed} (a bare number has no unit)" if bare else allowed
