"""Which number a standalone intake has in the offset: a pure function.

An entry of the offset belongs to a spool, whatever the order of the addresses in option
``intakes`` and whichever of them answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aqueduct_core.errors import InvalidOption


def numbered(known: Mapping[int, str], served: Sequence[str | None]) -> dict[int, int]:
    """The place in ``served`` of the intake with each number.

    ``known`` are the spools of the offset by number; ``served`` the spool that each address
    answers with, None where nobody answers. A spool that the offset knows keeps its number. One
    that it does not know gets the number of its place where that is free, else the lowest free
    one. While some address does not answer, numbers are kept for the known spools that have not
    been seen; when all answer, a spool that is not known takes the number of one that is served
    nowhere: it was replaced.

    Raises:
        InvalidOption: BAD_VALUE when two addresses serve the same spool.
    """
    places: dict[str, int] = {}
    for place, spool in enumerate(served):
        if spool is None:
            continue
        if spool in places:
            raise InvalidOption(
                "BAD_VALUE",
                f"Option 'intakes' names the intake of spool {spool} twice, as number "
                f"{places[spool] + 1} and {place + 1}",
                "Name each intake once",
            )
        places[spool] = place
    found = {number: places.pop(spool) for number, spool in known.items() if spool in places}
    taken = set(found)
    if None in served:
        taken |= set(known)
    free = [number for number in range(len(served)) if number not in taken]
    for place in sorted(places.values()):
        number = place if place in free else next(iter(free), None)
        if number is not None:
            free.remove(number)
            found[number] = place
    return found
