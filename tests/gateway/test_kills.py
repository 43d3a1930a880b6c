"""Owners that are killed, with all that they had, and owners that believe they still are: what was
acked is there, once, in order."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TextIO

import pytest

from tests.core.spool.objects.test_spool import open_objects
from tests.core.spool.rows import check_all, check_marks
from tests.support.objects.gateway import BUCKET, Gateway, farther
from tests.support.repository import ROOT
from tests.support.waiting import LONG

pytestmark = pytest.mark.gateway

KILLS = 50


@dataclass
class Storing:
    """A process of `tests.gateway.storing`, and what it has said. Its ``acked`` are the ends before
    which it acked all."""

    process: subprocess.Popen[str]
    epoch: int = 0
    found: list[int] = field(default_factory=list)
    acked: list[int] = field(default_factory=lambda: [0, 0])
    acks: int = 0
    fenced: bool = False
    over: bool = False
    said: threading.Condition = field(default_factory=threading.Condition)

    @classmethod
    def start(cls, gateway: Gateway, prefix: str) -> Storing:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.gateway.storing", f"s3://{BUCKET}/{prefix}"],
            env=os.environ | gateway.environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        storing = cls(process)
        threading.Thread(target=storing._listen, daemon=True).start()
        return storing

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            self._take(said)

    def _take(self, said: TextIO) -> None:
        for line in said:
            if not line.endswith("\n"):
                break  # killed in the middle of it: it has not said that
            word, *ends = line.split()
            with self.said:
                if word == "fenced":
                    self.fenced = True
                elif word == "acked":
                    self.acked = [int(each) for each in ends]
                    self.acks += 1
                else:
                    self.epoch, self.found = int(word), [int(each) for each in ends]
                self.said.notify_all()
        with self.said:
            self.over = True
            self.said.notify_all()

    def wait_for_acks(self, number: int) -> None:
        with self.said:
            assert self.said.wait_for(lambda: self.acks >= number or self.over, LONG)
        assert self.acks >= number, "it has ended"

    def wait_taken_over(self) -> None:
        with self.said:
            assert self.said.wait_for(lambda: self.epoch > 0 or self.over, LONG)
        assert self.epoch, "it has ended"

    def wait_fenced(self) -> None:
        assert self.process.wait(LONG) == 0
        with self.said:
            assert self.said.wait_for(lambda: self.over, LONG)
        assert self.fenced

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(LONG)


Start = Callable[[Gateway, str], Storing]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes; none outlives the test."""
    started: list[Storing] = []

    def start_one(gateway: Gateway, prefix: str) -> Storing:
        started.append(Storing.start(gateway, prefix))
        return started[-1]

    yield start_one
    for each in started:
        each.kill()
        with each.said:
            assert each.said.wait_for(lambda each=each: each.over, LONG)  # type: ignore[misc]


def check_found(before: Storing, after: Storing) -> None:
    assert after.epoch > before.epoch
    for acked, found in zip(before.acked, after.found, strict=True):
        assert acked <= found, f"epoch {after.epoch} found {after.found}, acked {before.acked}"


def check_everything(gateway: Gateway, prefix: str, last: Storing) -> None:
    with open_objects(gateway.store(prefix), prefix="") as spool:
        assert all(end >= acked for end, acked in zip(spool.ends(), last.acked, strict=True))
        check_all(spool)
        check_marks(spool)


@pytest.mark.timeout(1800)
def test_fifty_kills_lose_nothing(gateway: Gateway, prefix: str, start: Start) -> None:
    chance = random.Random(38)
    owner = start(gateway, prefix)
    for _ in range(KILLS):
        owner.wait_for_acks(chance.randint(1, 25))
        owner.kill()
        successor = start(gateway, prefix)
        successor.wait_taken_over()
        check_found(owner, successor)
        owner = successor
    owner.wait_for_acks(1)
    owner.kill()
    assert owner.acked[0] > KILLS
    check_everything(gateway, prefix, owner)


@pytest.mark.timeout(900)
def test_of_two_that_believe_to_own_it_one_stops(
    gateway: Gateway, prefix: str, start: Start
) -> None:
    """The store is 20 ms away, so that some groups are in flight when the other one comes."""
    with farther(gateway, 0.02) as far:
        owner = start(far, prefix)
        for round_ in range(10):
            owner.wait_for_acks(3 + round_)
            successor = start(far, prefix)
            successor.wait_taken_over()
            owner.wait_fenced()
            check_found(owner, successor)
            owner = successor
        owner.wait_for_acks(1)
        owner.kill()
    check_everything(gateway, prefix, owner)
