"""A rendezvous and an intake to launch, without Spark."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from aqueduct_core.flight.credentials import Credentials
from aqueduct_spark.formats.aqueduct.format import AqueductFormat
from aqueduct_spark.formats.aqueduct.options import AQUEDUCT_OPTIONS
from aqueduct_spark.intakes.launch import ensure_intake
from aqueduct_spark.intakes.launch_settings import launch_order
from aqueduct_spark.intakes.rendezvous import Registration, Rendezvous
from aqueduct_spark.model.partitions import LaunchOrder
from aqueduct_spark.options.read import StreamReadOptions
from tests.spark.scene import PATIENCE
from tests.support.waiting import ended, send_signal


class Ground:
    """A rendezvous and the launch order of one intake, as a planner has them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.options = StreamReadOptions.parse(
            {"listen": "127.0.0.1:0", "spool": str(home), "lease": "30s"}, AQUEDUCT_OPTIONS
        )
        self.credentials = Credentials.for_spool(home)
        self.rendezvous = Rendezvous("127.0.0.1", self.credentials)
        self.pids: set[int] = set()

    def order(self, **changes: object) -> LaunchOrder:
        address = f"127.0.0.1:{self.rendezvous.port}"
        order = launch_order(AqueductFormat(), self.options, 0, self.credentials, address, None)
        return replace(order, **changes)  # type: ignore[arg-type]

    def other_order(self, intake: int) -> LaunchOrder:
        """For an intake with another number, in its own directory."""
        settings = structs.replace(self.order().settings, spool=str(self.home / f"intake-{intake}"))
        return self.order(intake=intake, settings=settings)

    def ensure(self, order: LaunchOrder | None = None) -> Registration:
        held = ensure_intake(order or self.order())
        self.pids.add(held.pid)
        return held

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        ended(pid, PATIENCE)

    def close(self) -> None:
        self.rendezvous.shutdown()
        # Only what an intake wrote itself is a process of ours.
        for path in self.home.glob("intake-*/status.json"):
            self.pids.add(json.loads(path.read_text())["pid"])
        for pid in self.pids:
            send_signal(pid, signal.SIGTERM)
        for pid in self.pids:
            ended(pid, PATIENCE)
