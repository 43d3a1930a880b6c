"""Has an intake running: the one way, shared by launch tasks and by data tasks that miss one.

It may be called any number of times and in several tasks at once. The spool belongs to one
process at a time, so only one start succeeds; all callers end up with the same registration.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from aqueduct_core.errors import AqueductError, DataLoss, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_spark.model.partitions import LaunchOrder
from aqueduct_spark.model.values import listen_address
from aqueduct_spark.receivers.hosts import reachable_host
from aqueduct_spark.receivers.process import start_intake
from aqueduct_spark.receivers.registrations import Registration
from aqueduct_spark.receivers.rendezvous import RendezvousClient

PROBE_TIMEOUT = 5.0
"""Seconds for an intake that should be there to say that it is."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0
"""Seconds between tries to get a spool that another process still owns; each is twice the one
before, because each starts a process."""


def ensure_intake(order: LaunchOrder) -> Registration:
    """Return the registration of the running intake, started here if there is none.

    Ends after ``lock_timeout`` and ``launch_timeout`` of the order, each at most once.

    Raises:
        AqueductError: why it cannot run; SpoolFailed.LOCKED when another process kept the spool;
            DataLoss.SPOOL_REPLACED when the spool that must be there is not;
            IntakeFailed.UNREACHABLE when the planner is gone.
    """
    give_up = time.monotonic() + order.lock_timeout
    pause = FIRST_PAUSE
    with RendezvousClient(order.rendezvous, order.settings.credentials) as rendezvous:
        while True:
            held = rendezvous.lookup(order.intake)
            if held is not None and answers(held, order):
                return held
            try:
                return rendezvous.register(_start(order))
            except SpoolFailed as error:
                if error.subclass != "LOCKED" or time.monotonic() > give_up:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def answers(held: Registration, order: LaunchOrder) -> bool:
    """Whether the registered intake is there and serves the spool it was registered with."""
    try:
        with IntakeClient(
            held.at, order.settings.credentials, action_timeout=PROBE_TIMEOUT
        ) as client:
            status = client.status()
    except AqueductError:
        return False
    return status.id == held.id and not status.draining


def _start(order: LaunchOrder) -> Registration:
    directory = Path(order.settings.spool)
    if order.spool_id is not None and not directory.is_dir():
        raise DataLoss(
            "SPOOL_REPLACED",
            f"Spool {order.spool_id} of intake {order.intake} is not at {directory} on this host",
            "Bring it back or share it between executors, or start with a new checkpoint",
        )
    advertise = reachable_host(listen_address(order.settings.listen))
    ready = start_intake(replace(order.settings, advertise=advertise), order.launch_timeout)
    return Registration(
        order.intake,
        ready.id,
        ready.epoch,
        ready.flight,
        ready.pid,
        ready.listen,
        ready.fingerprint,
    )
