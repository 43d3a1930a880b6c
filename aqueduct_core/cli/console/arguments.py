"""What the verbs of the command line have in common: values and options, parsed at the door."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from aqueduct_core.aqueduct.config import ALPN
from aqueduct_core.aqueduct.conventions.headers import parse_decimal
from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives import token_file, units
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.primitives.settings import nearest
from aqueduct_core.transport.session_file import SessionFile
from aqueduct_core.transport.tls.credentials import ClientTls

EXAMPLES = "examples:"
"""How the last part of a verb's help begins."""

LEAST_MEMORY = 8 << 20
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


class VerbFormatter(argparse.HelpFormatter):
    """Wraps prose, and leaves examples as they were written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(EXAMPLES):
            return text
        return super()._fill_text(text, width, indent)


class VerbParser(argparse.ArgumentParser):
    """A parser that takes options and files in any order, as ``send URL --ca FILE DATA``.

    ``examples`` are lines of shell, each behind what it does; they end the help.
    """

    _inside = False

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]] = (), **given: Any) -> None:
        lines = [line for what, command in examples for line in (f"  # {what}", f"  {command}")]
        given["epilog"] = "\n".join([EXAMPLES, *lines]) if examples else None
        given["formatter_class"] = VerbFormatter
        super().__init__(*args, **given)
        self.examples = tuple(examples)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        if self._inside or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._inside = True
        try:
            found, unknown = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._inside = False
        if unknown:
            self.refuse("UNKNOWN", self._unknown(unknown[0]))
        return found, unknown

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"{word!r} is one argument too many"
        given = word.partition("=")[0]
        near = nearest(given, self._option_string_actions)
        return f"option {given!r} is not known" + (f"; the nearest one is {near}" if near else "")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        near = nearest(str(value), action.choices)
        hint = f"; the nearest one is {near}" if near else ""
        words = ", ".join(map(str, action.choices))
        raise argparse.ArgumentError(action, f"{value!r} is none of {words}{hint}")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Raises BrokenPipeError: nobody reads the help any more, or what else was printed."""
        sys.stdout.flush()
        super().exit(status, message)

    def error(self, message: str) -> NoReturn:
        subclass = next((name for words, name in _KINDS if words in message), "BAD_VALUE")
        self.refuse(subclass, message)

    def refuse(self, subclass: str, what: str) -> NoReturn:
        """End with exit code 2, and one line that says what is wrong with the arguments."""
        wrong = InvalidOption(subclass, f"{self.prog}: {what}", f"See {self.prog} --help")
        self.exit(2, f"{wrong}\n{self.format_usage()}")


_KINDS = (
    ("required", "MISSING"),
    ("not allowed with", "CONFLICT"),
    ("unrecognized", "UNKNOWN"),
)
"""What argparse says of wrong usage, and which of our words it is."""


def duration(text: str) -> float:
    """Seconds of ``500ms``, ``10s``, ``15m``, ``1h``; a bare number is refused."""
    try:
        return units.duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def header(text: str) -> tuple[bytes, bytes]:
    """A header of ``key=value``; the value may hold further equal signs."""
    key, equals, value = text.partition("=")
    if not equals or not key or not key.isascii():
        raise argparse.ArgumentTypeError(
            f"{text!r} is no header: write KEY=VALUE, the key in ASCII"
        )
    return key.encode(), value.encode(errors="surrogateescape")


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no count: write a whole number from 1 on")
    return int(text)


def memory(text: str) -> int:
    """Bytes, from 8 MiB on, as ``64m`` or ``1g``."""
    try:
        found = units.size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if found < LEAST_MEMORY:
        raise argparse.ArgumentTypeError(f"{text!r} is too little: write 8m at least")
    return found


def listen_address(text: str) -> HostPort:
    """Where to listen; port 0 is any free one, an empty host is all. Raises: InvalidOption."""
    try:
        return HostPort.parse(text, any_host=True)
    except ValueError as error:
        raise InvalidOption(
            "BAD_VALUE", f"the address to listen on is {text!r}", f"Give ADDRESS:PORT, {error}"
        ) from None


def number(text: str) -> int:
    """A logical number of a message: decimal digits."""
    try:
        return parse_decimal(b"", text.encode())
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 2^62 - 1") from None


def delimiter(text: str) -> bytes:
    r"""One or more characters; \n, \t, \r, \0, \xHH and \\ stand for what they do in C."""

    def one(match: re.Match[str]) -> str:
        escape = match[1]
        if escape.startswith("x"):
            return chr(int(escape[1:], 16))
        return _ESCAPES[escape]

    try:
        plain = re.sub(r"\\(x[0-9a-fA-F]{2}|.)", one, text)
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"{text!r} holds an unknown escape {error}") from None
    if not plain:
        raise argparse.ArgumentTypeError("the delimiter is empty; use --whole-file for whole files")
    if re.search(r"\\x[89a-fA-F]", text):
        return plain.encode("latin-1")
    return plain.encode()


def add_headers(parser: argparse.ArgumentParser, of: str) -> None:
    """``-H KEY=VALUE``, any number of times, as ``headers``; ``of`` says what they belong to."""
    parser.add_argument(
        "-H",
        dest="headers",
        action="append",
        type=header,
        default=[],
        metavar="KEY=VALUE",
        help=f"a header of each {of}, may be repeated",
    )


def add_trust(parser: argparse.ArgumentParser, *, token: bool = True) -> None:
    """The options that say how a dialled server is verified, and the token, where the protocol has
    one."""
    trust = parser.add_mutually_exclusive_group()
    trust.add_argument("--ca", type=Path, metavar="FILE", help="PEM file of the CA to trust")
    trust.add_argument(
        "--insecure",
        action="store_true",
        help="take any certificate; only for a server on this machine",
    )
    parser.add_argument("--server-name", metavar="NAME", help="name to look for in the certificate")
    if token:
        parser.add_argument(
            "--token-file", type=Path, metavar="FILE", help="file with a bearer token"
        )


def add_sessions(parser: argparse.ArgumentParser) -> None:
    """The options that say how a dialled server is met again."""
    parser.add_argument(
        "--early-data",
        action="store_true",
        help="send before the handshake is complete, where an earlier connection left a session "
        "for that (0-RTT)",
    )
    parser.add_argument(
        "--session-directory",
        type=Path,
        metavar="DIR",
        help="keep the sessions and address tokens of servers there for the next command, for "
        "this user alone (default: in memory)",
    )


def sessions(options: argparse.Namespace) -> SessionFile | None:
    """Where sessions are kept; None: in memory. Raises: InvalidOption.BAD_VALUE."""
    directory = options.session_directory
    return None if directory is None else SessionFile.in_directory(directory, ALPN)


def client_tls(options: argparse.Namespace) -> ClientTls:
    return ClientTls(ca_file=options.ca, server_name=options.server_name, insecure=options.insecure)


def read_token(path: Path | None) -> str | None:
    """The token in a file, if one is named. Raises: AuthFailed.MISSING, naming the file."""
    return None if path is None else token_file.read_token(path)
