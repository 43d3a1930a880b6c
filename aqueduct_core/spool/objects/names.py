"""The keys of the objects of one spool."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObjectNames:
    """All below one ``prefix``, which is empty or ends with a slash.

    A group is named by its sequence number alone: of two owners that would give out the same one,
    the store lets one create it. Segments and pages may be made again when that broke off: each
    ``attempt`` has another name, for a late deletion of the one must not meet the other.
    """

    prefix: str = ""

    @property
    def manifest(self) -> str:
        return f"{self.prefix}manifest.json"

    def group(self, sequence: int) -> str:
        return f"{self.prefix}groups/{sequence:020d}.arrows"

    def segment(self, first: int, last: int, attempt: str) -> str:
        """Of the groups ``first`` to ``last``."""
        return f"{self.prefix}segments/{first:020d}-{last:020d}-{attempt}.arrows"

    def page(self, first: int, last: int, attempt: str) -> str:
        """Entries of the segments of the groups ``first`` to ``last``."""
        return f"{self.prefix}pages/{first:020d}-{last:020d}-{attempt}.json"
