"""``aqueduct compile-pyspark``: bytecode for the PySpark that Spark's own Python processes import.

Spark has its Python processes import PySpark from ``python/lib/pyspark.zip`` of its home, and Py4J
from the archive beside it, whatever else is installed. As they are released they hold sources
alone, and Python keeps no bytecode of what it imports from an archive: each planner, daemon and
helper compiles some 250 modules when it starts, which takes longer than all else that it does until
then.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import py_compile
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aqueduct_core.errors import InvalidOption

FOLDER = Path("python", "lib")
ARCHIVES = ("pyspark.zip", "py4j-*-src.zip")
TESTS = "/tests/"


EXAMPLES = [
    (
        "once, on each host or in its image",
        "aqueduct compile-pyspark",
    ),
]


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "compile-pyspark",
        help="make Spark's Python processes start faster",
        description="Puts bytecode for this version of Python beside the sources in the "
        "pyspark.zip of Spark and in the archive of Py4J beside it, from which its Python "
        "processes import both; else each of them compiles them anew. Once for an installation, "
        "on each host of a cluster or in its image. What runs may go on.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "archives",
        nargs="*",
        type=Path,
        metavar="ARCHIVE",
        help="default: those of SPARK_HOME, or of the pyspark that is installed here",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    archives: list[Path] = options.archives or archives_of_spark()
    if not archives:
        raise _no_archive("python/lib/pyspark.zip of SPARK_HOME")
    lacking = [not has_bytecode(archive) for archive in archives]
    for archive, lacks in zip(archives, lacking, strict=True):
        if lacks:
            print(f"{archive}: {compile_archive(archive)} modules")
        else:
            print(f"{archive} has its bytecode")
    return 0


def archives_of_spark() -> list[Path]:
    """Where a Spark that is started from here has its PySpark and Py4J; empty: there is none."""
    home = os.environ.get("SPARK_HOME")
    if home is None:
        spec = importlib.util.find_spec("pyspark")
        home = str(Path(spec.origin).parent) if spec is not None and spec.origin else None
    if home is None:
        return []
    return archives_below(home)


def archives_below(home: str) -> list[Path]:
    """The same of the Spark in this directory, in the order in which its Python processes look."""
    return [found for name in ARCHIVES for found in sorted((Path(home) / FOLDER).glob(name))]


def _no_archive(given: Path | str) -> InvalidOption:
    return InvalidOption(
        "BAD_VALUE",
        f"{given} is no archive of PySpark, or a damaged one",
        "Name the file pyspark.zip below python/lib of Spark, or install PySpark anew",
    )


def has_bytecode(archive: Path) -> bool:
    """Whether all that is to be compiled is, by this version of Python.

    Raises:
        InvalidOption: BAD_VALUE for what is no archive, or a damaged one.
        OSError: it cannot be read.
    """
    with _readable(archive) as opened:
        names = set(opened.namelist())
        for name in filter(_is_source, names):
            if f"{name}c" not in names:
                return False
            with opened.open(f"{name}c") as compiled:
                if compiled.read(4) != importlib.util.MAGIC_NUMBER:
                    return False
    return True


def compile_archive(archive: Path) -> int:
    """Put bytecode beside the sources; returns of how many.

    The archive is replaced as a whole, also behind a link to it. What is added stands behind all
    that is there, so a process that has read where its modules are finds them: also bytecode of
    another version of Python, which stays where it is, but is not listed any more. It is not
    compressed: each process that is started would take 20 ms to undo that.

    Raises:
        InvalidOption: BAD_VALUE for what is no archive, or a damaged one.
        OSError: the disk failed, or nothing may be written there.
    """
    archive = archive.resolve()
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".compile-") as name:
        made = Path(name) / archive.name
        shutil.copyfile(archive, made)
        with _readable(archive) as opened:
            sources = {name: opened.read(name) for name in filter(_is_source, opened.namelist())}
        with zipfile.ZipFile(made, "a", zipfile.ZIP_STORED) as opened:
            kept = [each for each in opened.filelist if not each.filename.endswith(".pyc")]
            opened.filelist = kept
            opened.NameToInfo = {each.filename: each for each in kept}
            count = 0
            for source, text in sources.items():
                code = _compiled(text, f"{archive}/{source}", Path(name))
                if code is not None:
                    opened.writestr(f"{source}c", code)
                    count += 1
        shutil.copymode(archive, made)
        made.replace(archive)
    return count


@contextmanager
def _readable(archive: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(archive) as opened:
            yield opened
    except (FileNotFoundError, IsADirectoryError, zipfile.BadZipFile, zlib.error) as error:
        raise _no_archive(archive) from error


def _is_source(name: str) -> bool:
    return name.endswith(".py") and TESTS not in name


def _compiled(source: bytes, shown: str, place: Path) -> bytes | None:
    """Bytecode that is taken without a look at its source, which is in the same file; None where
    this version of Python does not know the syntax."""
    file = place / "source.py"
    file.write_bytes(source)
    try:
        compiled = py_compile.compile(
            str(file),
            cfile=str(file.with_suffix(".pyc")),
            dfile=shown,
            doraise=True,
            # Of all processes, whatever this one was told: some want docstrings and assertions.
            optimize=0,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
    except py_compile.PyCompileError as error:
        print(f"{shown}: {error.exc_type_name}", file=sys.stderr)
        return None
    return None if compiled is None else Path(compiled).read_bytes()
