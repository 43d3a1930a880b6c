"""A process that owns a spool on an object store, and says on its standard output what it acks:

    epoch ENDS...    taken over, with these ends found
    acked ENDS...    all rows before these are durable
    fenced           another one has it

Ends when it is fenced, or killed.
"""

from __future__ import annotations

import itertools
import sys

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.objects.appending import ObjectSettings
from aqueduct_core.spool.objects.obstore_store import open_store
from aqueduct_core.spool.objects.spool import ObjectSpool
from aqueduct_core.spool.sync import wait_readable
from tests.core.spool.rows import SCHEMA, append


def say(what: object, ends: list[int]) -> None:
    print(what, *ends, flush=True)


def main(url: str) -> None:
    try:
        spool = ObjectSpool.open(
            open_store(url),
            schema=SCHEMA,
            partitions=2,
            bounds=ObjectSettings(window=4, seal_groups=16),
            place=url,
        )
        say(spool.epoch, spool.ends())
        spool.on_durable = lambda group: say("acked", spool.ends())
        spool.enter_cursor("query", [True, True])
        ends = spool.ends()
        for number in itertools.count():
            append(spool, ends, [1 + number % 3, number % 2])
            spool.flush()
            while spool.group and spool.open_bytes:  # the window is full
                wait_readable(spool.fileno(), None)
                spool.pump()
            spool.pump()
            if number % 20 == 19:
                spool.commit("query", [max(0, each - 200) for each in spool.ends()])
                spool.trim()
    except SpoolFailed as error:
        if error.subclass != "LOCKED":
            raise
        say("fenced", [])


if __name__ == "__main__":
    main(sys.argv[1])
