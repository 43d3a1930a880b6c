"""What an owner does to the manifest, and in which order: changes, sealing, trimming, sweeping."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from aqueduct_core.spool.format.record import Codec
from aqueduct_core.spool.objects import compaction
from aqueduct_core.spool.objects.compaction import SealedRange
from aqueduct_core.spool.objects.manifest import PAGE, Manifest, encode_manifest
from aqueduct_core.spool.objects.names import ObjectNames
from aqueduct_core.spool.objects.steps import replace as replace_object
from aqueduct_core.spool.objects.store import Steps
from aqueduct_core.spool.objects.takeover import read_manifest, taken
from aqueduct_core.spool.retention import LogPositions

Change = Callable[[Manifest], Manifest]


class ManifestOwner:
    """The manifest as its owner has it: changed by compare-and-swap, one change at a time. Steps
    may be carried out by any thread, those of `seal`, `trim` and `sweep` by one.

    Holds: no change takes place behind another owner's.
    """

    def __init__(
        self,
        names: ObjectNames,
        codec: Codec,
        manifest: Manifest,
        tag: str,
        nonce: Callable[[], str],
    ) -> None:
        self.names = names
        self._codec = codec
        self._manifest = manifest
        self._tag = tag
        self._nonce = nonce
        self._lock = threading.Lock()
        self._swept: Manifest | None = None
        self._attempts = 0
        self.note: Change = lambda manifest: manifest
        """Added to each change: what may be noted at any time."""

    @property
    def manifest(self) -> Manifest:
        return self._manifest

    def change(self, change: Change) -> Steps[Manifest]:
        """Change the manifest; it is stored when this returns. ``change`` is pure, and may be
        asked again.

        Raises:
            SpoolFailed: LOCKED when another owner has come; FORBIDDEN.
        """
        with self._lock:
            while True:
                new = self.note(change(self._manifest))
                done = self._swept
                if done is not None:
                    new = compaction.swept(new, done)
                new = replace(new, nonce=self._nonce())
                tag = yield from replace_object(
                    self.names.manifest, encode_manifest(new), self._tag
                )
                if tag is not None:
                    self._manifest, self._tag, self._swept = new, tag, None
                    return new
                # an attempt of ours whose steps broke off may have taken place since
                latest, latest_tag = yield from read_manifest(self.names)
                if latest is None or latest.life != self._manifest.life:
                    raise taken(self.names, latest)
                self._manifest, self._tag = latest, latest_tag

    def seal(self, each: SealedRange, now: float) -> Steps[Manifest]:
        """Make a segment of a range that begins at the floor.

        Args:
            now: seconds since 1970.

        Raises:
            SpoolFailed: as of `change`, and `compaction.store_segment`.
        """
        attempt, life = self._attempt(), self._manifest.life
        key = each.key(self.names, attempt)
        yield from self.change(lambda manifest: compaction.about_to_make(manifest, key))
        entry = yield from compaction.store_segment(
            self.names, self._codec, each, attempt, life, now
        )
        yield from self.change(
            lambda manifest: compaction.with_segment(self.names, manifest, entry, each)
        )
        yield from self._turn_page()
        yield from self.sweep()
        return self._manifest

    def trim(
        self, cursors: Mapping[str, LogPositions], owed: int, sealed_before: float
    ) -> Steps[bool]:
        """Let go of the oldest segments that all cursors have passed; whether there were any.

        Raises:
            SpoolFailed: as of `change`.
        """
        entries = yield from compaction.oldest_entries(self.names, self._manifest)
        gone = compaction.removable_entries(self._manifest, entries, cursors, owed, sealed_before)
        if not gone:
            return False
        yield from self.change(
            lambda manifest: compaction.without_segments(self.names, manifest, gone)
        )
        yield from self.sweep()
        return True

    def sweep(self) -> Steps[None]:
        """Delete what is to be deleted; the next change notes that it was."""
        done = self._manifest
        yield from compaction.sweep(self.names, done)
        self._swept = done

    def _turn_page(self) -> Steps[None]:
        manifest = self._manifest
        if len(manifest.segments) < 2 * PAGE:
            return
        first, last, attempt = (
            manifest.segments[0].first,
            manifest.segments[PAGE - 1].last,
            self._attempt(),
        )
        key = self.names.page(first, last, attempt)
        yield from self.change(lambda manifest: compaction.about_to_make(manifest, key))
        page = yield from compaction.store_page(self.names, manifest, attempt)
        yield from self.change(lambda manifest: compaction.with_page(self.names, manifest, page))

    def _attempt(self) -> str:
        self._attempts += 1
        return f"{self._manifest.epoch}-{self._attempts}"
