"""Taking a spool over, and finding what its owners stored. Pure: yields operations of a store.

The log is a chain of objects with consecutive sequence numbers. Each owner begins with a *fence*:
an object created in the place of the first number that is missing. The owner before creates its
groups under the same names, so of the two one fails; and it reports a group only when all below it
are stored. So if the fence stands, nothing from there on was reported, or ever will be. What the
owner before has in flight ends before ``resume`` of the fence, which is its window further on.

Three rules make this hold although objects are deleted (`compaction`). A create that was under way
for long may take place after its name was freed, so:

* fences are never deleted: an owner that is fenced stays so;
* an owner looks at the manifest behind its fence: while nobody else has taken the spool over,
  nothing was deleted that it read, and so the number that it found missing is the end;
* what is below the floor of the manifest is not read by its name any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aqueduct_core.errors import DataLoss, InvalidOption, SpoolFailed
from aqueduct_core.spool.format.record import Codec, Damaged, verify
from aqueduct_core.spool.objects.group import LogFence, LogObject, fence_data, read_log_object
from aqueduct_core.spool.objects.manifest import (
    Manifest,
    SegmentEntry,
    decode_manifest,
    encode_manifest,
)
from aqueduct_core.spool.objects.names import ObjectNames
from aqueduct_core.spool.objects.steps import answers, create, get
from aqueduct_core.spool.objects.steps import replace as replace_object
from aqueduct_core.spool.objects.store import GetObject, ObjectFound, Steps

READ_AHEAD = 16
"""Objects that are asked for at once while the end of the log is sought."""


@dataclass(frozen=True, slots=True)
class TakeoverRequest:
    """What an owner comes with.

    spool: the id of the spool that must be there; None: it may be a new one, which is made.
    new_id: that of the spool where there is none.
    life: random for each opening.
    window: groups that it will have in flight, at least 1.
    nonce: gives another text at each call.
    """

    names: ObjectNames
    codec: Codec
    partitions: int
    life: str
    window: int
    new_id: str
    nonce: Callable[[], str]
    spool: str | None = None
    read_ahead: int = READ_AHEAD


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A spool that is ours until somebody else takes it.

    ``manifest`` has the ``tag``; ``objects`` are those from its floor on, our own fence the last;
    ``state`` that of a head (`record`) after the segments, None where nothing was sealed; the next
    group has the number ``sequence``, and rows the offsets ``ends``.
    """

    manifest: Manifest
    tag: str
    objects: tuple[LogObject, ...]
    state: dict[str, Any] | None
    sequence: int
    ends: tuple[int, ...]


def take_over(request: TakeoverRequest) -> Steps[TakenOver]:
    """
    Raises:
        DataLoss: SPOOL_REPLACED.
        InvalidOption: BAD_VALUE: the spool has other columns; CONFLICT: it has more partitions.
        SpoolFailed: LOCKED: somebody else takes it over; CORRUPT, VERSION, FORBIDDEN.
    """
    manifest, tag = yield from _claim(request)
    state = yield from _state(request, manifest)
    log = LogEnd(request.names, manifest, request.read_ahead)
    while True:
        yield from log.advance()
        _check_epoch(log.fences, manifest.epoch)
        if manifest.durable >= log.sequence:
            raise (yield from _lost(request, log.sequence, manifest.durable))
        resume = resume_after(log.sequence, log.window)
        fence = LogFence(manifest.epoch, request.window, resume)
        data = fence_data(request.codec, log.sequence, request.life, fence)
        there = yield from create(request.names.group(log.sequence), data)
        if there is None:
            break
    log.add(read_log_object(data, log.sequence))
    # only now: somebody who came since may have deleted what we took for the end
    yield from check_owned(request.names, request.life)
    return TakenOver(manifest, tag, tuple(log.objects), state, log.sequence, tuple(log.ends))


def resume_after(sequence: int, window: int) -> int:
    """Where to go on behind a fence at the first missing number, behind an owner of a window."""
    return sequence + max(1, window)


def check_owned(names: ObjectNames, life: str) -> Steps[None]:
    """
    Raises:
        SpoolFailed: LOCKED when another owner has come.
    """
    latest, _ = yield from read_manifest(names)
    if latest is None or latest.life != life:
        raise taken(names, latest)


def read_manifest(names: ObjectNames) -> Steps[tuple[Manifest | None, str]]:
    """The manifest and its tag; None when there is no spool.

    Raises:
        SpoolFailed: CORRUPT, VERSION, FORBIDDEN.
    """
    there = yield from get(names.manifest)
    if there is None:
        return None, ""
    return decode_manifest(there.data, names.manifest), there.tag


class LogEnd:
    """The log from the floor of a manifest on, as far as it was read.

    ``sequence`` is the next number, of an owner with this ``window``; ``ends`` the next offsets.
    """

    def __init__(
        self, names: ObjectNames, manifest: Manifest, read_ahead: int = READ_AHEAD
    ) -> None:
        self._names = names
        self._read_ahead = read_ahead
        self.objects: list[LogObject] = []
        self.sequence = manifest.floor
        self.window = manifest.window
        self.ends = manifest.ends

    @property
    def fences(self) -> list[LogFence]:
        return [each.fence for each in self.objects if each.fence is not None]

    def advance(self) -> Steps[None]:
        """Read on until a number is missing.

        Raises:
            SpoolFailed: CORRUPT, FORBIDDEN.
        """
        while True:
            begin = self.sequence
            numbers = range(begin, begin + self._read_ahead)
            found = yield from answers([GetObject(self._names.group(each)) for each in numbers])
            for number, answer in zip(numbers, found, strict=True):
                if not isinstance(answer, ObjectFound):
                    return
                try:
                    self.add(read_log_object(answer.data, number))
                except Damaged as error:
                    raise self._corrupt(number, str(error)) from None
                if self.sequence != number + 1:
                    break  # a fence: what follows it is void

    def add(self, each: LogObject) -> None:
        """What stands at ``sequence``.

        Raises:
            SpoolFailed: CORRUPT when its rows do not follow those before.
        """
        if each.fence is not None:
            self.sequence, self.window = each.fence.resume, each.fence.window
        else:
            for record in each.records:
                if record.first != self.ends[record.partition]:
                    raise self._corrupt(each.sequence, "its rows do not follow those before it")
                self.ends[record.partition] = record.stop
            self.sequence += 1
        self.objects.append(each)

    def _corrupt(self, sequence: int, reason: str) -> SpoolFailed:
        key = self._names.group(sequence)
        return SpoolFailed("CORRUPT", f"{key}: {reason}", "Bring the object back from a copy")


def taken(names: ObjectNames, latest: Manifest | None) -> SpoolFailed:
    who = "is gone" if latest is None else f"has an owner of epoch {latest.epoch} by now"
    return SpoolFailed(
        "LOCKED",
        f"the spool {names.prefix!r} {who}",
        "Nothing more is stored or acked here: use the later owner, or stop it",
    )


def _check_epoch(fences: Sequence[LogFence], epoch: int) -> None:
    if any(each.epoch > epoch for each in fences):
        raise SpoolFailed(
            "LOCKED",
            f"an owner of a later epoch than {epoch} has taken the spool over",
            "Use the later owner, or stop it",
        )


def _lost(request: TakeoverRequest, sequence: int, durable: int) -> Steps[SpoolFailed]:
    """What was stored is not there: a later owner deleted it, or somebody else did."""
    latest, _ = yield from read_manifest(request.names)
    if latest is None or latest.life != request.life:
        return taken(request.names, latest)
    return SpoolFailed(
        "CORRUPT",
        f"{request.names.group(sequence)} is missing: groups up to {durable} were stored",
        "Bring the objects back",
    )


def _claim(request: TakeoverRequest) -> Steps[tuple[Manifest, str]]:
    """Raise the epoch, in a spool that is made where there is none."""
    names = request.names
    while True:
        found, tag = yield from read_manifest(names)
        if found is None:
            if request.spool is not None:
                raise _replaced(request, "nothing")
            fresh = Manifest(
                request.new_id, request.codec.schema, request.partitions, nonce=request.nonce()
            )
            yield from create(names.manifest, encode_manifest(fresh))
            continue
        if request.spool not in (None, found.spool):
            raise _replaced(request, f"the spool {found.spool}")
        _check_layout(request, found)
        ours = replace(
            found.with_partitions(request.partitions),
            epoch=found.epoch + 1,
            life=request.life,
            nonce=request.nonce(),
        )
        new_tag = yield from replace_object(names.manifest, encode_manifest(ours), tag)
        if new_tag is not None:
            return ours, new_tag


def _state(request: TakeoverRequest, manifest: Manifest) -> Steps[dict[str, Any] | None]:
    """What the newest segment says of the state after it."""
    if not manifest.segments:
        return None
    entry = manifest.segments[-1]
    return (yield from read_state(request.names, entry))


def read_state(names: ObjectNames, entry: SegmentEntry) -> Steps[dict[str, Any]]:
    """The state after a segment.

    Raises:
        SpoolFailed: LOCKED when it is gone: it has been another owner's to delete; CORRUPT.
    """
    key = names.segment(entry.first, entry.last, entry.attempt)
    found = yield from get(key, entry.state_at)
    if found is None:
        latest, _ = yield from read_manifest(names)
        if latest is not None and entry in latest.segments:
            raise SpoolFailed("CORRUPT", f"{key} is missing", "Bring the object back")
        raise taken(names, latest)
    try:
        state = verify(memoryview(found.data), 0, entry.first, entry.state_at).state
    except Damaged as error:
        raise SpoolFailed("CORRUPT", f"{key}: {error}", "Bring the object back") from None
    assert state is not None
    return state


def _check_layout(request: TakeoverRequest, found: Manifest) -> None:
    if not found.schema.equals(request.codec.schema):
        raise InvalidOption(
            "BAD_VALUE",
            f"the spool has the columns {found.schema.names}, not {request.codec.schema.names}",
            "Name another spool for rows of another kind",
        )
    if found.partitions > request.partitions:
        raise InvalidOption(
            "CONFLICT",
            f"the spool has {found.partitions} partitions, not {request.partitions}",
            f"Open it with {found.partitions} partitions or more",
        )


def _replaced(request: TakeoverRequest, what: str) -> DataLoss:
    return DataLoss(
        "SPOOL_REPLACED",
        f"{request.names.prefix!r} holds {what}, not the spool {request.spool}",
        "Bring the spool back, or start a new query with a new checkpoint",
    )
