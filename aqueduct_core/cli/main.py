"""``aqueduct``: the command line. Each verb is a module of its own with ``add`` and ``run``.

Exit codes: 0 done; 1 an error, told in one line on standard error; 2 wrong usage;
130 and 143 interrupted by Ctrl-C and SIGTERM; 141 standard output was closed by its reader.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aqueduct_core.aio.outcomes import Misuse, OverLimit
from aqueduct_core.aqueduct.conventions.headers import BadHeader
from aqueduct_core.cli import (
    cert,
    compile_pyspark,
    conf,
    demo,
    doctor,
    intake,
    job,
    listen,
    quicr,
    request,
    send,
    spool,
    subscribe,
    telehash,
)
from aqueduct_core.cli.console.arguments import VerbParser
from aqueduct_core.cli.console.terminal import print_error
from aqueduct_core.cli.monitor import page, top
from aqueduct_core.errors import AqueductError, InvalidOption, SinkFailed
from aqueduct_core.escape import escaped
from aqueduct_core.logs.handler import log_to_standard_error
from aqueduct_core.primitives.release import release

FAILED, INTERRUPTED, BROKEN_PIPE = 1, 130, 141

SHELLS = ("bash", "zsh", "fish")
"""For which completion is printed."""

VERBS = (
    send,
    listen,
    subscribe,
    request,
    quicr,
    telehash,
    intake,
    spool,
    top,
    page,
    job,
    demo,
    conf,
    cert,
    doctor,
    compile_pyspark,
)


def build_parser() -> argparse.ArgumentParser:
    parser = VerbParser(prog="aqueduct", description="Aqueduct message channels over QUIC.")
    parser.add_argument("--version", action="version", version=f"aqueduct {release()}")
    parser.add_argument("-v", "--verbose", action="store_true", help="log to standard error")
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="of what is logged: lines of text (default), or a JSON object a line",
    )
    parser.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=SHELLS,
        help="print what makes a shell complete this command, and end",
    )
    verbs = parser.add_subparsers(
        title="verbs", metavar="VERB", required=True, parser_class=VerbParser
    )
    for verb in VERBS:
        verb.add(verbs)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; the exit code."""
    try:
        options = build_parser().parse_args(arguments)
        level = logging.INFO if options.verbose else logging.ERROR
        log_to_standard_error(level, options.log_format)
        code: int = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has left. What is still buffered must not raise once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OverLimit as error:
        return _failed(str(SinkFailed("MESSAGE_TOO_LARGE", str(error), "Send less in one message")))
    except BadHeader as error:
        return _failed(str(InvalidOption("BAD_VALUE", str(error), "Correct it")))
    except (AqueductError, Misuse) as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"aqueduct: {_os_error(error)}")
    return code


def _failed(text: str) -> int:
    """One line on standard error, behind what was logged."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    print_error(escaped(text, None))
    return FAILED


def _os_error(error: OSError) -> str:
    name = f"{error.filename}: " if error.filename is not None else ""
    return f"{name}{error.strerror or error}"


class PrintCompletion(argparse.Action):
    """Prints what makes a shell complete verbs, options and files, and ends the command."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        print(completion(parser, str(values)))
        parser.exit()


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script; where a value is a path, files or directories are completed. Beside a verb stands
    its help of a few words, and not the paragraph that describes it."""
    import shtab

    for action in _actions(parser):
        if isinstance(action, argparse._SubParsersAction):
            for verb in action._choices_actions:
                action.choices[verb.dest].description = verb.help
        if action.type is Path:
            kind = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
            action.complete = kind  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Of the parser and of all its verbs."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from _actions(verb)


if __name__ == "__main__":
    sys.exit(main())
