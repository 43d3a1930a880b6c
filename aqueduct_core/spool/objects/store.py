"""What the spool asks of an object store, and what the store says to it. No library is known here.

A store is strongly consistent: what was stored is found by every operation that begins later. A
conditional write takes place whole or not at all; of two that exclude each other one takes place.
`StoreUnavailable` says nothing about a write: it took place, or it did not, or it still will.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class GetObject:
    """Bytes ``[start, stop)`` of an object, to its end where ``stop`` is None."""

    key: str
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class CreateObject:
    """Store an object where there is none (``If-None-Match: *``)."""

    key: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ReplaceObject:
    """Store an object in the place of the one with this tag (``If-Match``)."""

    key: str
    data: bytes = field(repr=False)
    tag: str


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """It is gone afterwards; no matter whether it was there."""

    key: str


@dataclass(frozen=True, slots=True)
class ListObjects:
    """The keys with this prefix that come after ``after``, in order; some of them, at least one
    where there are any."""

    prefix: str
    after: str = ""


@dataclass(frozen=True, slots=True)
class ObjectFound:
    """The bytes that were asked for; ``tag`` is that of the whole object."""

    data: bytes = field(repr=False)
    tag: str


@dataclass(frozen=True, slots=True)
class ObjectStored:
    """It was created or replaced; ``tag`` is that of what is there now."""

    tag: str


@dataclass(frozen=True, slots=True)
class ObjectDeleted:
    """There is none of that key any more."""


@dataclass(frozen=True, slots=True)
class ObjectsListed:
    """``keys`` in order; none: there are no more."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ObjectExists:
    """Not created: there is one. It may be our own, when the answer to an attempt was lost."""


@dataclass(frozen=True, slots=True)
class ObjectChanged:
    """Not replaced: there is another one, or none. Likewise it may be our own."""


@dataclass(frozen=True, slots=True)
class ObjectMissing:
    """There is none of that key."""


@dataclass(frozen=True, slots=True)
class StoreUnavailable:
    """No answer, a failure of the store's (5xx), or too many requests: ask again later."""

    reason: str


@dataclass(frozen=True, slots=True)
class StoreDenied:
    """The store does not let us do that; nothing was changed. It may, with other credentials."""

    reason: str


Operation: TypeAlias = GetObject | CreateObject | ReplaceObject | DeleteObject | ListObjects
StoreAnswer: TypeAlias = (
    ObjectFound
    | ObjectStored
    | ObjectDeleted
    | ObjectsListed
    | ObjectExists
    | ObjectChanged
    | ObjectMissing
)
StoreOutcome: TypeAlias = StoreAnswer | StoreUnavailable | StoreDenied

Steps: TypeAlias = Generator[tuple[Operation, ...], tuple[StoreOutcome, ...], _Result]
"""What is to be done, as operations that may be carried out in parallel; is sent their outcomes in
the same order, and returns what came of it. Whoever carries them out waits before the next ones
when one had no answer."""


class ObjectStore(Protocol):
    """Carries operations out, one attempt each. Any thread may call, and waits for the store."""

    def carry_out(self, operation: Operation) -> StoreOutcome:
        """One attempt; never raises for what the store or the network does."""
