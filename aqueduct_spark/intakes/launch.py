"""Has an intake running: the one way, shared by launch tasks and by data tasks that miss one.

It may be called any number of times and in several tasks at once, also on several hosts. A spool
belongs to one process at a time, so only one start succeeds; all callers end up with the same
registration.
"""

from __future__ import annotations

import logging
import socket
import time
from pathlib import Path

from msgspec import structs

from aqueduct_core.errors import AqueductError, DataLoss, IntakeFailed, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.intake.control import status_file
from aqueduct_core.spool.identity import spool_in
from aqueduct_spark.intakes.process import start_intake
from aqueduct_spark.intakes.rendezvous import Registration, RendezvousClient, reachable_host
from aqueduct_spark.model.partitions import LaunchOrder
from aqueduct_spark.planning.progress import give_up

log = logging.getLogger(__name__)

PROBE_TIMEOUT = 5.0
"""Seconds for an intake that should be there to say that it is."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0
"""Seconds between tries to get a spool that another process still owns; each is twice the one
before, because each starts a process."""

ABSENT_TIMEOUT = 10.0
"""Seconds for which a data task on a host without the spool waits for the intake to run elsewhere:
tasks for other ranges of it are on other executors."""

SEARCH_PAUSE = 0.3
"""Seconds for which a launch task in vain keeps its slot, so that its copies go to others."""


def launch_here(order: LaunchOrder) -> Registration | None:
    """Have the intake running, unless its spool exists elsewhere: then say so and return None.

    For launch tasks: the planner offers the launch to other executors.

    Raises:
        AqueductError: as `ensure_intake`.
    """
    if _is_here(order):
        return ensure_intake(order)
    with _rendezvous(order) as rendezvous:
        held = _found(rendezvous, order)
        if held is None:
            rendezvous.report_absent(order.intake, socket.gethostname(), _spool_here(order))
            time.sleep(SEARCH_PAUSE)
    return held


def ensure_intake(order: LaunchOrder) -> Registration:
    """Return the registration of the running intake, started here if there is none.

    Ends after ``lock_timeout`` and ``launch_timeout`` of the order, each at most once.

    Raises:
        AqueductError: why it cannot run; SpoolFailed.LOCKED when another process kept the spool;
            DataLoss.SPOOL_REPLACED when another spool is in the place of the one that must be
            there; IntakeFailed.UNREACHABLE when there is none in sight, or the planner is gone.
    """
    began = time.monotonic()
    pause, begun = FIRST_PAUSE, False
    with _rendezvous(order) as rendezvous:
        while True:
            held = rendezvous.lookup(order.intake)
            if held is not None and answers(held, order):
                return held
            waited = time.monotonic() - began
            if not _is_here(order):
                if waited > min(ABSENT_TIMEOUT, order.lock_timeout):
                    raise _absent(order)
            else:
                if not begun:
                    begun = True
                    rendezvous.report(order.intake)
                try:
                    return settle(rendezvous, _start(order), held, order)
                except AqueductError as error:
                    locked = isinstance(error, SpoolFailed) and error.subclass == "LOCKED"
                    shared = _shared(order) if locked else None
                    if shared is not None:
                        return settle(rendezvous, shared, held, order)
                    failed = not locked or waited > order.lock_timeout
                    rendezvous.report(order.intake, error, failed=failed)
                    if failed:
                        raise
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def answers(held: Registration, order: LaunchOrder) -> bool:
    """Whether the registered intake is there and serves the spool it was registered with."""
    status = _status_at(held.at, order)
    return status is not None and status.id == held.id


def _found(rendezvous: RendezvousClient, order: LaunchOrder) -> Registration | None:
    held = rendezvous.lookup(order.intake)
    return held if held is not None and answers(held, order) else None


def settle(
    rendezvous: RendezvousClient,
    offered: Registration,
    gone: Registration | None,
    order: LaunchOrder,
) -> Registration:
    """The registration that stands. An intake of a second new spool has to end again."""
    stands = rendezvous.register(offered, gone)
    if stands.id != offered.id:
        log.warning(
            "intake %d serves spool %s; the one started beside it ends", order.intake, stands.id
        )
        try:
            with IntakeClient(offered.at, order.settings.credentials) as client:
                client.drain()
        except AqueductError as error:
            # Nobody renews its lease, so it ends all the same.
            log.warning("%s", error)
    return stands


def _shared(order: LaunchOrder) -> Registration | None:
    """The intake that has the spool, when it answers with our credentials: other queries read from
    it as well, or a task before us started it and came to no end."""
    directory = Path(order.settings.spool)
    said = status_file.read(directory)
    if said is None or not isinstance(said.get("flight"), str):
        return None
    status = _status_at(said["flight"], order)
    if status is None or status.id != said.get("id"):
        return None
    if order.spool_id is not None and status.id != order.spool_id:
        return None
    return Registration.of(order.intake, said["flight"], status)


def _status_at(address: str, order: LaunchOrder) -> IntakeStatus | None:
    """The status of an intake that goes on; None when none answers there."""
    try:
        with IntakeClient(
            address, order.settings.credentials, action_timeout=PROBE_TIMEOUT
        ) as client:
            status = client.status()
    except AqueductError:
        return None
    return None if status.draining else status


def _is_here(order: LaunchOrder) -> bool:
    """Whether the spool that must exist is on this host; a new one can be anywhere."""
    return order.spool_id is None or _spool_here(order) == order.spool_id


def _spool_here(order: LaunchOrder) -> str | None:
    """Which spool is in that directory; None where there is none in sight, as in the directory of
    a volume that is not mounted."""
    try:
        return spool_in(Path(order.settings.spool))
    except OSError as error:
        log.warning("%s: %s", order.settings.spool, error)
        return None


def _start(order: LaunchOrder) -> Registration:
    advertise = reachable_host(order.outside)
    settings = structs.replace(order.settings, advertise=advertise, spool_id=order.spool_id)
    ready = start_intake(settings, order.launch_timeout)
    return Registration(
        order.intake,
        ready.id,
        ready.epoch,
        ready.flight,
        ready.pid,
        ready.listen or "",
        ready.fingerprint or "",
        started=True,
    )


def _absent(order: LaunchOrder) -> AqueductError:
    """Not in sight is not gone; and another one in its place says nothing of other hosts."""
    found = _spool_here(order)
    if found is not None and found != order.spool_id:
        return DataLoss(
            "SPOOL_REPLACED",
            f"{order.settings.spool} holds spool {found} on this host, not {order.spool_id} of "
            f"intake {order.intake}, and no intake that serves that is known",
            "Bring it back or share it between executors, or start with a new checkpoint; "
            + give_up(str(order.spool_id)),
        )
    return IntakeFailed(
        "UNREACHABLE",
        f"Spool {order.spool_id} of intake {order.intake} is not in sight at "
        f"{order.settings.spool} on this host, and no intake that serves it is known",
        "Mount its volume again, bring the directory back, or share it between executors; "
        + give_up(str(order.spool_id)),
    )


def _rendezvous(order: LaunchOrder) -> RendezvousClient:
    return RendezvousClient(order.rendezvous, order.settings.credentials)
