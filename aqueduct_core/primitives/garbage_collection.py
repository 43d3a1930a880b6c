"""The garbage collector of a process that others can make hold many objects.

A look through all objects stops the process for a second for each million of them, and Python
takes one whenever a quarter more have lasted, so a peer that opens channels as fast as it can stops
everybody's acks again and again. What a connection holds is freed without the collector, when it
ends; what is left to it are cycles of a few objects, which may wait.

And of a process that others look through: PySpark's daemon does after each task of a worker.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

OLD = 1_000
"""Looks through the middle generation for each one through all: seven million objects more than
were freed meanwhile, or some gigabytes."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look through all objects rarely, and not at those that are there already; for the whole
    process, until the end of the block."""
    young, middle, old = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, middle, OLD)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
        gc.unfreeze()


@cache
def freeze_once() -> None:
    """No collection looks any more at what is there when this is called first; later calls do
    nothing.

    For a worker of Spark when its imports are done: some 70,000 objects, through which a collection
    after each task would take 25 ms. Nothing is kept that would be freed without the collector, and
    cycles of before are freed now.
    """
    gc.collect()
    gc.freeze()
