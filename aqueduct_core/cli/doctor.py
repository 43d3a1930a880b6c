"""``aqueduct doctor``: does this machine have what is needed? One line a check."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

import aqueduct_core
from aqueduct_core.cli.compile_pyspark import archives_of_spark, has_bytecode
from aqueduct_core.cli.console import terminal
from aqueduct_core.cli.spark_lookup import FormatNotFound, find_java, found_by_spark
from aqueduct_core.errors import AqueductError

PACKAGES = ("aioquic", "pyarrow", "numpy", "cryptography")
OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17
OLDEST_SPARK = (4, 2)
"""The first whose Python sources can bound a micro-batch."""
LIBRARY = "aqueduct"
FORMATS = {name: f"pyspark_{name}" for name in ("aqueduct", "quicr", "telehash")}
"""Short names of the formats and the modules by which Spark finds them."""
EXPIRES_SOON = datetime.timedelta(days=14)
SOL_UDP, UDP_GRO = 17, 104
COMMAND_TIMEOUT = 30.0


class Finding(NamedTuple):
    """One line: ``ok``, ``note`` (works without) or ``bad``."""

    grade: str
    subject: str
    text: str


EXAMPLES = [
    (
        "what Spark will find, and what is missing",
        "aqueduct doctor",
    ),
]


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "doctor",
        help="check this machine",
        description="Checks versions, Java, whether Spark finds the formats (Spark is started for "
        "that), UDP on this machine and the dates of certificates. Exit 1 if something is bad.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "certificates", nargs="*", type=Path, metavar="CERTIFICATE", help="PEM files to check"
    )
    parser.add_argument(
        "--no-spark", action="store_true", help="leave out Java and Spark, where only peers run"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    spark: list[Callable[[], Iterator[Finding]]] = (
        [] if options.no_spark else [_pyspark, _java, _spark, _bytecode, _formats]
    )
    checks = [_python, _packages, _library, *spark, _udp]
    bad = 0
    for check in checks:
        bad += _show(check())
    for path in options.certificates:
        bad += _show(_certificate(path))
    return 1 if bad else 0


def _show(findings: Iterator[Finding]) -> int:
    """Print what a check found, as soon as it is found; how much of it is bad."""
    bad = 0
    for finding in findings:
        if terminal.is_terminal(sys.stdout):
            _draw(finding)
        else:
            print(f"{finding.grade:4}  {finding.subject:18} {finding.text}", flush=True)
        bad += finding.grade == "bad"
    return bad


def _draw(finding: Finding) -> None:
    from rich.table import Table
    from rich.text import Text

    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_column(width=4)
    line.add_column(width=18, overflow="fold")
    line.add_column(overflow="fold")
    grade = Text(finding.grade, terminal.STYLES[finding.grade])
    line.add_row(grade, Text(finding.subject), Text(finding.text))
    terminal.console(sys.stdout).print(line)


def _python() -> Iterator[Finding]:
    grade = "ok" if sys.version_info >= OLDEST_PYTHON else "bad"
    yield Finding(grade, "python", f"{platform.python_version()} on {platform.platform()}")


def _packages() -> Iterator[Finding]:
    for name in PACKAGES:
        yield _package(name)


def _library() -> Iterator[Finding]:
    """Whether ``import aqueduct`` is ours: another distribution has a package of that name."""
    wanted = Path(aqueduct_core.__file__).parent.parent / LIBRARY
    found = find_spec(LIBRARY)
    where = Path(found.origin).parent if found is not None and found.origin else None
    if where is None or where.resolve() != wanted.resolve():
        yield Finding(
            "note",
            "import aqueduct",
            f"finds {where or 'nothing'} and not {wanted}: a program that imports it needs an "
            "environment without the other one; Spark, intakes and the command line do not use it",
        )


def _package(name: str) -> Finding:
    try:
        return Finding("ok", name, version(name))
    except PackageNotFoundError:
        return Finding("bad", name, "not installed: pip install aqueduct-spark")


def _pyspark() -> Iterator[Finding]:
    found = _package("pyspark")
    archives = archives_of_spark() if found.grade == "bad" else []
    yield Finding("ok", "pyspark", f"that of Spark, {archives[0]}") if archives else found


def _java() -> Iterator[Finding]:
    java = find_java(os.environ)
    if java is None:
        yield Finding("bad", "java", f"not found; Spark needs Java {OLDEST_JAVA} or newer")
        return
    text = _output([java, "-version"])
    match = re.search(r'version "(\d+)', text)
    if match is None:
        yield Finding("bad", "java", f"{java} did not tell its version")
    elif int(match[1]) < OLDEST_JAVA:
        yield Finding("bad", "java", f"{match[1]} at {java}; Spark needs {OLDEST_JAVA} or newer")
    else:
        yield Finding("ok", "java", f"{match[1]} at {java}")


def _bytecode() -> Iterator[Finding]:
    archives = archives_of_spark()
    try:
        lacking = [str(archive) for archive in archives if not has_bytecode(archive)]
    except (AqueductError, OSError) as error:
        yield Finding("bad", "bytecode", str(error))
        return
    if lacking:
        why = "each Python process of Spark compiles that anew: aqueduct compile-pyspark"
        yield Finding("note", "bytecode", f"none in {', '.join(lacking)}; {why}")
    elif archives:
        yield Finding("ok", "bytecode", f"of PySpark, in {archives[0].parent}")


def _spark() -> Iterator[Finding]:
    """The Spark that is started from here, by its own jars."""
    for archive in archives_of_spark()[:1]:
        home = archive.parents[2]
        for jar in (home / "jars").glob("spark-core_*.jar"):
            number = jar.stem.split("-", 2)[2]
            shown = f"{number} at {home}"
            if tuple(int(part) for part in re.findall(r"\d+", number)[:2]) < OLDEST_SPARK:
                wanted = ".".join(map(str, OLDEST_SPARK))
                yield Finding("bad", "spark", f"{shown}; the formats need {wanted} or newer")
            else:
                yield Finding("ok", "spark", shown)


def _formats() -> Iterator[Finding]:
    for name, module in FORMATS.items():
        try:
            python = found_by_spark(name, module)
        except FormatNotFound as error:
            yield Finding("bad", f"format {name}", str(error))
        else:
            yield Finding("ok", f"format {name}", f"found by Spark, with {python}")


def _udp() -> Iterator[Finding]:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        grade = "bad" if family == socket.AF_INET else "note"
        try:
            _loop_back(family, host)
        except OSError as error:
            yield Finding(grade, f"udp {host}", str(error.strerror or error))
        else:
            yield Finding("ok", f"udp {host}", "a datagram came back")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.setsockopt(SOL_UDP, UDP_GRO, 1)
        except OSError:
            yield Finding("note", "udp gro", "not available: datagrams are read one by one")
        else:
            yield Finding("ok", "udp gro", "available: datagrams are read in bursts")


def _loop_back(family: socket.AddressFamily, host: str) -> None:
    with (
        socket.socket(family, socket.SOCK_DGRAM) as receiver,
        socket.socket(family, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind((host, 0))
        receiver.settimeout(2.0)
        sender.sendto(b"aqueduct", receiver.getsockname())
        if receiver.recv(64) != b"aqueduct":
            raise OSError("another datagram came back")


def _certificate(path: Path) -> Iterator[Finding]:
    subject = f"cert {path.name}"
    try:
        certificates = x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        yield Finding("bad", subject, f"{path} cannot be read: {error.strerror}")
        return
    except ValueError:
        yield Finding("bad", subject, f"{path} holds no certificate in PEM form")
        return
    now = datetime.datetime.now(datetime.UTC)
    for certificate in certificates:
        first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if now > last:
            yield Finding("bad", subject, f"expired at {last:%Y-%m-%d %H:%M} UTC")
        elif now < first:
            yield Finding("bad", subject, f"valid only from {first:%Y-%m-%d %H:%M} UTC")
        elif last - now < EXPIRES_SOON:
            yield Finding("note", subject, f"expires soon, at {last:%Y-%m-%d %H:%M} UTC")
        else:
            yield Finding("ok", subject, f"valid until {last:%Y-%m-%d %H:%M} UTC")


def _output(command: list[str]) -> str:
    """What a command prints, on both of its outputs; its error where it cannot run."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout + done.stderr
