"""What `MediaProgress` does, one position after the other, in a space of few groups and objects."""

from __future__ import annotations

from aqueduct_core.quicr.media.position import Position

GROUPS = 6
OBJECTS = 8
"""More than these nobody sends; a group is as long as its told size, or endless."""


class NaiveProgress:
    """``here``: objects that came or were given up, in groups whose size is not told; all numbers
    of a group count as objects until it is."""

    def __init__(self, begin: Position) -> None:
        self.begin = begin
        self.here: set[Position] = set()
        self.sizes: dict[int, int] = {}
        self.beyond: set[Position] = set()
        self.final: Position | None = None

    def __contains__(self, position: Position) -> bool:
        size = self.sizes.get(position.group)
        if size is not None and position.object >= size:
            return position in self.beyond
        return position < self.begin or position in self.here

    def misses(self, position: Position) -> bool:
        """It may come, as far as is known."""
        beyond = position.object >= self.sizes.get(position.group, position.object + 1)
        return position not in self and not beyond

    def add(self, position: Position) -> None:
        size = self.sizes.get(position.group)
        if size is not None and position.object >= size:
            self.beyond.add(position)
        else:
            self.here.add(position)

    def note_previous(self, group: int, count: int | None) -> None:
        before = group - 1
        if count is None or before < 0 or before in self.sizes or Position(group, 0) <= self.front:
            return
        seen = [each.object + 1 for each in self.here if each.group == before]
        if self.front.group == before:
            seen.append(self.front.object)
        self.sizes[before] = max([count, *seen])

    def skip_to(self, position: Position) -> None:
        self.begin = max(self.begin, position)

    @property
    def front(self) -> Position:
        at = self.begin
        while True:
            if at in self.here:
                at = at.following
            elif at.object >= self.sizes.get(at.group, at.object + 1):
                at = Position(at.group + 1, 0)
            else:
                return at

    @property
    def complete(self) -> bool:
        return self.final is not None and self.front >= self.final
