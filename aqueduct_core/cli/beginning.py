"""With which number the input of ``send --producer`` begins, and which of it is sent (pure)."""

from __future__ import annotations

from typing import NamedTuple

from aqueduct_core.aqueduct.conventions.positions import ChannelPosition
from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives.ranges import RangeSet


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
    """What the options mean for a channel that stands at ``position`` (None: not told).

    New input goes on behind what is stored; the input of the last run begins where that run began.
    Which of the two it is, is a question only after a run that did not come to its end: then one
    answer would store lines twice, and the other would drop new ones as repeats. A number that was
    given out before is a repeat, so it must be asked for as one, and from where it is compared: so
    all of the run is sent where ``resume_from`` is below where the channel stands.

    Raises: InvalidOption: MISSING for that question, and for a beginning that is not known;
        BAD_VALUE for messages that would be left out and are not stored, and for numbers that were
        given out before.
    """
    if sequence_start is not None:
        first = sequence_start
        if position is not None and first < position.next:
            _refuse_given(position, first, repeats=resume or resume_from is not None)
    elif position is None:
        if append:
            raise InvalidOption(
                "MISSING",
                "--append is given, but the server does not tell where the channel stands",
                "Give the number of the first message, --sequence-start",
            )
        first = 0
    elif resume or resume_from is not None:
        first = _last_run(position)
    elif position.broken_off and not append:
        raise InvalidOption(
            "MISSING",
            f"channel {position.channel!r} stands at {position.next}, and what sent to it last"
            f"{_since(position)} did not come to its end",
            "Give --resume if the input is the same as then, --append if it is new",
        )
    else:
        first = position.next
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
