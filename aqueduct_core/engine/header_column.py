"""Header data of messages in a row, encoded once: for the wire and for the checksum of content.

One list of bytes in place of pairs of bytes for each message: who sends many messages with headers
pays for each about what it pays for the payload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress

from aqueduct_core.engine.message_batch import Headers, ReceivedHeaders
from aqueduct_core.primitives import varint
from aqueduct_core.primitives.cursor import Cursor, encode_varbytes

_NONE = b"\x00"
"""The region of a message without headers."""


def encode_pairs(headers: Headers) -> bytes:
    """Header data without the length in front of it: key and value in turn, each with its length
    (AQ-HDRDATA-1)."""
    encode = varint.encode
    return b"".join([encode(len(part)) + part for pair in headers for part in pair])


class HeaderColumn:
    """The header data of messages in a row. Never changes.

    Holds: for each message its pairs as `encode_pairs` gives them, empty where it has none; all
    keys that occur are in ``keys``; no message has over ``most_pairs``. ``received``: keys may be
    any bytes, as those that came from a peer (`ReceivedHeaders`).
    """

    __slots__ = ("_contents", "_regions", "keys", "most_pairs", "received")

    def __init__(
        self, contents: list[bytes], keys: frozenset[bytes], most_pairs: int, *, received: bool
    ) -> None:
        self.keys = keys
        self.most_pairs = most_pairs
        self.received = received
        self._contents = contents
        self._regions: list[bytes] | None = None

    @classmethod
    def of(cls, headers: Iterable[Headers]) -> HeaderColumn:
        """Of pairs, message by message."""
        each = list(headers)
        return cls(
            [encode_pairs(pairs) if pairs else b"" for pairs in each],
            frozenset(key for pairs in each for key, _ in pairs),
            max(map(len, each), default=0),
            received=all(isinstance(pairs, ReceivedHeaders) for pairs in each if pairs),
        )

    @classmethod
    def rising(cls, before: Headers, key: bytes, values: Iterable[bytes]) -> HeaderColumn:
        """Of messages that have the pairs ``before`` and one of this key, each with its value."""
        same = encode_pairs(before) + encode_varbytes(key)
        heads = _Heads(same)
        contents = [heads[len(value)] + value for value in values]
        keys = frozenset((*(name for name, _ in before), key))
        return cls(contents, keys, len(before) + 1, received=False)

    @property
    def regions(self) -> list[bytes]:
        """For each message its header data as on the wire, with the length in front."""
        if self._regions is None:
            encode = varint.encode
            self._regions = [encode(len(pairs)) + pairs for pairs in self._contents]
        return self._regions

    @property
    def longest(self) -> int:
        """Bytes of the pairs of the message that has most."""
        return max(map(len, self._contents), default=0)

    @property
    def longest_added(self) -> int:
        """Bytes that headers make a frame longer, at most."""
        longest = self.longest
        return longest + len(varint.encode(longest)) - 1

    def __len__(self) -> int:
        return len(self._contents)

    def __bool__(self) -> bool:
        """Whether any message has headers."""
        return any(self._contents)

    def __getitem__(self, index: int) -> Headers:
        region = Cursor(self._contents[index])
        pairs = []
        while not region.exhausted:
            key = region.varbytes()
            pairs.append((key, region.varbytes()))
        return ReceivedHeaders(pairs) if self.received else tuple(pairs)

    def __iter__(self) -> Iterator[Headers]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HeaderColumn):
            return NotImplemented
        return self._contents == other._contents

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"HeaderColumn(<{len(self)} messages>, keys={sorted(self.keys)})"

    def part(self, first: int, stop: int) -> HeaderColumn:
        """Of messages ``[first, stop)``."""
        if (first, stop) == (0, len(self)):
            return self
        part = self._with(self._contents[first:stop])
        if self._regions is not None:
            part._regions = self._regions[first:stop]
        return part

    def take(self, indexes: Iterable[int]) -> HeaderColumn:
        """Of these messages."""
        return self._with(list(map(self._contents.__getitem__, indexes)))

    def plus(self, behind: HeaderColumn) -> HeaderColumn:
        """Each message has those of both."""
        pairs = zip(self._contents, behind._contents, strict=True)
        return HeaderColumn(
            [before + after for before, after in pairs],
            self.keys | behind.keys,
            self.most_pairs + behind.most_pairs,
            received=self.received or behind.received,
        )

    def indexes(self) -> Iterator[int]:
        """The messages that have any."""
        return compress(range(len(self)), self._contents)

    def _with(self, contents: list[bytes]) -> HeaderColumn:
        return HeaderColumn(contents, self.keys, self.most_pairs, received=self.received)


class _Heads(dict[int, bytes]):
    """What stands before a value of so many bytes."""

    def __init__(self, same: bytes) -> None:
        super().__init__()
        self._same = same

    def __missing__(self, size: int) -> bytes:
        head = self[size] = self._same + varint.encode(size)
        return head
