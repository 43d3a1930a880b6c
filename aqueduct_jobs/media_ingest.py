"""Media into a table: reads the objects of QUICR media as a stream and appends them to any Spark
sink.

    aqueduct job media_ingest --config media_ingest.toml

It ends and goes on as the job ingest does: every object is in the table exactly once, known by its
URL, group and number.
"""

from __future__ import annotations

import sys
from functools import partial

from aqueduct_jobs import streaming
from aqueduct_jobs.ingest import KNOWN, start


def main(argv: list[str] | None = None) -> int:
    job = "media_ingest"
    return streaming.run(job, __doc__, KNOWN, partial(start, source="quicr", job=job), argv)


if __name__ == "__main__":
    sys.exit(main())
