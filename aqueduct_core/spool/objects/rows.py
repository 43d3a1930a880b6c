"""Reading rows out of a spool on object storage: several objects at once, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from aqueduct_core.spool.format.record import Codec
from aqueduct_core.spool.losses import range_gone
from aqueduct_core.spool.objects.reading import LogView, ObjectIndex, ObjectLocation, rows_at
from aqueduct_core.spool.objects.steps import get
from aqueduct_core.spool.objects.store import ObjectFound, Steps

READ_PARALLEL = 4
"""Objects, or parts of one, that a read asks for at once: it holds so many times
`reading.LARGEST_GET` bytes."""


@dataclass(frozen=True, slots=True)
class SpoolRows:
    """Rows of one spool, for any thread.

    view: the spool at this moment.
    run: carries steps out, and waits for the store.
    """

    index: ObjectIndex
    codec: Codec
    view: Callable[[], LogView]
    run: Callable[[Steps[object]], object]
    place: str

    def locations(self, partition: int, start: int, end: int) -> list[ObjectLocation]:
        """
        Raises:
            DataLoss: RANGE_GONE, OFFSET_AHEAD.
            SpoolFailed: CORRUPT, FORBIDDEN, IO when the store does not answer.
        """
        found = self.run(self.index.locate(self.view(), partition, start, end))
        assert isinstance(found, list)
        return found

    def read(self, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Exactly the rows ``[start, end)``, in order, checksums verified; the range is checked at
        once.

        Raises:
            DataLoss: RANGE_GONE, OFFSET_AHEAD.
            SpoolFailed: CORRUPT, FORBIDDEN, IO.
        """
        return self._rows(self.locations(partition, start, end), end)

    def _rows(self, locations: list[ObjectLocation], end: int) -> Iterator[pa.RecordBatch]:
        """An object that is gone may have become part of a segment: it is sought once more."""
        while locations:
            at, gone = locations[0].first, None
            for location, found in self._fetched(locations):
                if found is None:
                    gone = location
                    break
                for batch in rows_at(location, found.data, self.codec):
                    at += batch.num_rows
                    yield batch
            if gone is None:
                return
            locations = self.locations(gone.partition, at, end)
            if locations and locations[0][:4] == gone[:4]:
                raise range_gone(self.place, gone.partition, gone.first, gone.stop)

    def _fetched(
        self, locations: Sequence[ObjectLocation]
    ) -> Iterator[tuple[ObjectLocation, ObjectFound | None]]:
        def fetch(each: ObjectLocation) -> ObjectFound | None:
            found = self.run(get(each.key, each.position, each.position + each.length))
            assert found is None or isinstance(found, ObjectFound)
            return found

        if len(locations) == 1:
            yield locations[0], fetch(locations[0])
            return
        waiting: deque[tuple[ObjectLocation, Future[ObjectFound | None]]] = deque()
        left = iter(locations)
        with ThreadPoolExecutor(min(READ_PARALLEL, len(locations)), "spool-read") as pool:
            try:
                while True:
                    for each in left:
                        waiting.append((each, pool.submit(fetch, each)))
                        if len(waiting) >= READ_PARALLEL:
                            break
                    if not waiting:
                        return
                    location, future = waiting.popleft()
                    yield location, future.result()
            finally:
                for _, future in waiting:
                    future.cancel()
