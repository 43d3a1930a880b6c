"""A signal is noted once Spark runs, acted upon in a thread, and raised when it comes again."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from aqueduct_jobs.stop_signal import SIGNALS, StopSignal
from tests.support.waiting import LONG


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = [signal.getsignal(number) for number in SIGNALS]
    yield
    for number, handler in zip(SIGNALS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_before_spark_runs_it_is_raised(number: int) -> None:
    signals = StopSignal()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
    assert not signals.given


@pytest.mark.parametrize("number", SIGNALS)
def test_once_spark_runs_it_is_noted_and_the_next_one_is_raised(number: int) -> None:
    signals, acted = StopSignal(), threading.Event()
    signals.heed()
    signals.then(acted.set)
    assert not signals.wait(0)
    os.kill(os.getpid(), number)
    assert signals.wait(LONG)
    assert signals.given
    assert acted.wait(LONG)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)


def test_a_jvm_that_has_gone_has_nothing_to_end() -> None:
    signals, called = StopSignal(), threading.Event()
    signals.heed()

    def act() -> None:
        called.set()
        raise ConnectionRefusedError("the JVM has ended")

    signals.then(act)  # what a thread raises would fail the test
    os.kill(os.getpid(), signal.SIGTERM)
    assert called.wait(LONG)
