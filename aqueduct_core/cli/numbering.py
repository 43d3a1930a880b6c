"""With which number the input of ``send --producer`` begins, and which of it is sent: the options,
and what they mean where a channel stands (pure)."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from aqueduct_core.aqueduct.conventions.positions import ChannelPosition
from aqueduct_core.cli.console import arguments
from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives.ranges import RangeSet


def add_numbering(parser: argparse.ArgumentParser) -> None:
    """The options that say who sends, and which numbers the input has."""
    parser.add_argument(
        "--producer",
        metavar="ID",
        help="an identity: reconnect when the connection is lost and send again what has no ack. "
        "An intake stores each message number of ID and channel once, and says where the channel "
        "stands: the input goes on there when the last run on it came to its end, else the "
        "command asks for --resume or --append",
    )
    again = parser.add_mutually_exclusive_group()
    again.add_argument(
        "--resume",
        action="store_true",
        help="with --producer: the input is that of the last run on the channel, whether or not "
        "that came to its end: what is stored of it is compared and counted as repeated, the rest "
        "is stored; other input is an error",
    )
    again.add_argument(
        "--append",
        action="store_true",
        help="with --producer: the input is new, and goes on behind what is stored, although the "
        "last run on the channel did not come to its end; nothing is compared",
    )
    again.add_argument(
        "--resume-from",
        type=arguments.number,
        metavar="N",
        help="as --resume, but do not send the messages of the input with numbers below N, which "
        "are not compared then; a command that failed says which are stored. If more than those "
        "are, all of the input is sent, as by --resume, so that they can be compared",
    )
    parser.add_argument(
        "--sequence-start",
        type=arguments.number,
        metavar="N",
        help="with --producer: the number of the first message of the input, in place of what the "
        "server says; below that only with --resume or --resume-from, at the number with which the "
        "last run or the channel begins",
    )


def given_numbering(options: argparse.Namespace) -> list[tuple[bool, str]]:
    """The options about numbers, and whether each is given."""
    return [
        (options.sequence_start is not None, "--sequence-start"),
        (options.resume_from is not None, "--resume-from"),
        (options.resume, "--resume"),
        (options.append, "--append"),
    ]


class Beginning(NamedTuple):
    """Logical numbers of the first message of the input, and of the first one to send."""

    input: int
    start: int


def beginning(
    position: ChannelPosition | None,
    *,
    sequence_start: int | None = None,
    resume_from: int | None = None,
    resume: bool = False,
    append: bool = False,
) -> Beginning:
    """What the options mean for a channel that stands at ``position`` (None: it is not known).

    New input goes on behind what is stored; the input of the last run begins where that run began.
    Which of the two it is, is a question only after a run that did not come to its end: then one
    answer would store lines twice, and the other would drop new ones as repeats. A number that was
    given out before is a repeat, so it must be asked for as one, and from where it is compared: so
    all of the run is sent where ``resume_from`` is below where the channel stands.

    Raises: InvalidOption: MISSING for that question, and for a beginning that is not known;
        BAD_VALUE for messages that would be left out and are not stored, and for numbers that were
        given out before.
    """
    repeats = resume or resume_from is not None
    first = _first(position, sequence_start, repeats=repeats, append=append)
    start = first if resume_from is None else resume_from
    if start < first:
        raise InvalidOption(
            "BAD_VALUE",
            f"--resume-from is {start}, but the input begins with number {first}",
            "Give a number of the input",
        )
    if position is not None and not RangeSet(position.stored).covers(first, start):
        raise InvalidOption(
            "BAD_VALUE",
            f"--resume-from is {start}, but messages of numbers {first} to {start - 1} are not "
            "known to be stored",
            "Give --resume, which sends all of the input; what is stored is not stored twice",
        )
    if position is not None and start < position.next:
        # what begins inside the run has no sum to be compared with
        start = first
    return Beginning(first, start)


def _first(
    position: ChannelPosition | None, sequence_start: int | None, *, repeats: bool, append: bool
) -> int:
    """The number of the first message of the input."""
    if sequence_start is not None:
        if position is not None and sequence_start < position.next:
            _refuse_given(position, sequence_start, repeats=repeats)
        return sequence_start
    if position is None:
        if append:
            raise InvalidOption(
                "MISSING",
                "--append is given, but the server does not tell where the channel stands",
                "Give the number of the first message, --sequence-start",
            )
        return 0
    if repeats:
        return _last_run(position)
    if position.broken_off and not append:
        raise InvalidOption(
            "MISSING",
            f"channel {position.channel!r} stands at {position.next}, and what sent to it last"
            f"{_since(position)} did not come to its end",
            "Give --resume if the input is the same as then, --append if it is new",
        )
    return position.next


def _refuse_given(position: ChannelPosition, first: int, *, repeats: bool) -> None:
    """Numbers from ``first`` on are stored: pass what is told to repeat a run from where it began,
    or all runs, for that is compared; and what may be that, where it is not known any more."""
    stands = f"--sequence-start is {first}, but channel {position.channel!r} stands at "
    if not repeats:
        raise InvalidOption(
            "BAD_VALUE",
            f"{stands}{position.next}: numbers from {first} on were given out before",
            "Give --resume too if the input is the same as then; if it is new, give --append "
            "in place of the number",
        )
    begun = position.begun
    if begun is None or first == begun or position.all_from(first):
        return
    raise InvalidOption(
        "BAD_VALUE",
        f"{stands}{position.next}: {first} is inside what was sent before, of which the last run "
        f"begins at {begun}, and it could not be compared whether the input is the same",
        "Give --resume without the number for the input of the last run; to repeat all runs, give "
        "the first number of the channel",
    )


def _last_run(position: ChannelPosition) -> int:
    if position.next == 0:
        return 0
    if position.begun is None:
        raise InvalidOption(
            "MISSING",
            f"it is not known at which number the last run on channel {position.channel!r} began",
            "Give it as --sequence-start",
        )
    return position.begun


def _since(position: ChannelPosition) -> str:
    return "" if position.begun is None else f" (from number {position.begun} on)"
