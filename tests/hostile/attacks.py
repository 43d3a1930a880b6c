"""``python -m tests.hostile.attacks NAME HOST PORT FLIGHT_PORT BYTES RATE SECONDS``: one attack.

It ends when it has sent BYTES, has nothing more to send, or SECONDS are over, keeps to RATE bytes a
second, and prints what it has sent as JSON. Its connections are left as they are until it is told
to end by a line on standard input.
"""

from __future__ import annotations

import dataclasses
import json
import resource
import sys
import time

from tests.hostile import admitted, connected, crowd, flight, strangers
from tests.hostile.attack import ATTACKS, Stage, Target, rounds

__all__ = ["ATTACKS", "Stage", "admitted", "connected", "crowd", "flight", "strangers"]

BURST = 0.02
"""Seconds of its rate that an attack may send at once."""


def main(name: str, host: str, port: str, flight_port: str, *limits: str) -> None:
    most, rate, seconds = map(float, limits)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4_096)), hard))
    target = Target(host, int(port), (host, int(flight_port)))
    _, program = ATTACKS[name]
    tally = target.tally
    begun = due = time.monotonic()
    sent = 0
    for _ in rounds(program, target):
        now = time.monotonic()
        if tally.bytes >= most or now - begun > seconds:
            break
        # what was not sent in time, as it waited for an answer, is not sent faster later
        due = max(due, now - BURST) + (tally.bytes - sent) / rate
        sent = tally.bytes
        if due > now + 0.002:
            time.sleep(due - now)
    print(json.dumps(dataclasses.asdict(tally)), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
