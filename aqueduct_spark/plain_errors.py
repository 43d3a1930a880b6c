"""Errors of ours as the first thing that a user of Spark reads.

Spark hands on what its Python processes raise as text: the traceback first, the error below it.
A condition with a name and a remedy needs no traceback of ours, so Spark's own switch for leaving
it out is set when such an error leaves us. What has no name is a mistake of ours, and keeps it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from aqueduct_core.errors import AqueductError

log = logging.getLogger(__name__)

SWITCH = "SPARK_HIDE_TRACEBACK"
"""Read by Spark's Python processes when they tell the JVM of an error; set in the environment of
all of them by ``spark.sql.execution.pyspark.udf.hideTraceback.enabled``."""

OF_SPARK = "PYTHON_WORKER_FACTORY_"
"""What the names of variables begin with that the JVM sets for each of these processes."""

P = ParamSpec("P")
T = TypeVar("T")


def plainly(call: Callable[P, T]) -> Callable[P, T]:
    """Of a method that Spark calls: errors of ours leave it without a traceback."""

    @wraps(call)
    def plain(*args: P.args, **kwargs: P.kwargs) -> T:
        with _leaving():
            return call(*args, **kwargs)

    return plain


def plainly_each(call: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """The same of one that gives rows, while they are taken too."""

    @wraps(call)
    def plain(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        with _leaving():
            yield from call(*args, **kwargs)

    return plain


@contextmanager
def _leaving() -> Iterator[None]:
    try:
        yield
    except AqueductError:
        log.debug("on its way to the driver", exc_info=True)
        # The process ends when it has told of the error, so nothing has to be put back. In one
        # that Spark has not started nobody would tell, and others would inherit the variable.
        if any(name.startswith(OF_SPARK) for name in os.environ):
            os.environ[SWITCH] = "1"
        raise
