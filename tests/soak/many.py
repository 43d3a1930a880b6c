"""Many producers on one intake: 500 connections with 20,000 channels in all, each in order."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct_core.intake.settings.intake import TlsSettings
from tests.faults.ledger import DIGITS
from tests.faults.tables import stored
from tests.soak.measures import Recorder, draw, table
from tests.soak.progress import Progress
from tests.support.intake_process import IntakeProcess, Site
from tests.support.processes import open_files, resident_bytes
from tests.support.waiting import environment

PROCESSES = 2
CONNECTIONS = 500
CHANNELS = 20_000
MESSAGES = 50
SIZE = 100
STEP_SECONDS = 600.0


def run(home: Path, progress: Progress) -> tuple[bool, str]:
    """Whether all was well, and the report as Markdown."""
    site = Site(home)
    figures: list[tuple[str, object]] = []
    with (
        site.intake(lease=3_600.0, tls=TlsSettings(self_signed=("127.0.0.1",))) as intake,
        Recorder(lambda: {"intake": [intake.pid]}) as recorder,
        ExitStack() as stack,
    ):
        figures.append(("intake at rest, MB", resident_bytes(intake.pid) / 1e6))
        crowd = [stack.enter_context(_member(intake, number)) for number in range(PROCESSES)]
        for step in ("connect", "attach", "send", "finish"):
            recorder.mark(step)
            seconds = _step(crowd)
            status = intake.status()
            progress.say(
                f"{step}: {seconds:.1f} s, {status.connections} connections, "
                f"{status.channels} channels, {status.counters['rows']:,} rows"
            )
            figures += _figures(step, seconds, intake)
        books, good = _books(stored(intake))
        figures += books
    draw(recorder, home / "many.png", "500 connections, 20,000 channels, one intake")
    figures.append(("intake at most, MB", max(s.resident for s in recorder.samples) / 1e6))
    return good, "## Many connections and channels\n\n" + table(("what", "value"), figures) + "\n"


def _member(intake: IntakeProcess, number: int) -> subprocess.Popen[bytes]:
    each = CONNECTIONS // PROCESSES
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.soak.crowd", "--endpoint", intake.url,
         "--first", str(number * each), "--connections", str(each),
         "--channels", str(CHANNELS // CONNECTIONS), "--messages", str(MESSAGES),
         "--size", str(SIZE)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(),
    )  # fmt: skip


def _step(crowd: list[subprocess.Popen[bytes]]) -> float:
    """All go on; the seconds until the last one is there."""
    begun = time.monotonic()
    for member in crowd:
        assert member.stdin is not None
        member.stdin.write(b"on\n")
        member.stdin.flush()
    for member in crowd:
        assert member.stdout is not None
        line = member.stdout.readline()
        assert line, "a process of the crowd died"
        json.loads(line)
    return time.monotonic() - begun


def _figures(step: str, seconds: float, intake: IntakeProcess) -> list[tuple[str, object]]:
    memory = resident_bytes(intake.pid) / 1e6
    match step:
        case "connect":
            return [
                (f"{CONNECTIONS} connections made in, s", seconds),
                ("a second", CONNECTIONS / seconds),
                ("intake then, MB", memory),
                ("its open files", open_files(intake.pid)),
            ]
        case "attach":
            status = intake.status()
            return [
                (f"{CHANNELS:,} channels attached in, s", seconds),
                ("channels that the intake counts", status.channels),
                ("intake then, MB", memory),
            ]
        case "send":
            count = CHANNELS * MESSAGES
            return [
                (f"{count:,} messages of {SIZE} bytes sent and acked in, s", seconds),
                ("messages a second, stored and acked", count / seconds),
                ("intake then, MB", memory),
            ]
    return [("all channels finished in, s", seconds), ("intake then, MB", memory)]


def _books(rows: pa.Table) -> tuple[list[tuple[str, object]], bool]:
    """Each channel of each producer has each number once and in order."""
    rows = rows.filter(pc.not_equal(rows["channel"], "0"))
    numbers = pc.cast(
        pc.cast(pc.binary_slice(rows["value"], 0, DIGITS), pa.string()), pa.int64()
    ).to_numpy()
    names = pc.binary_join_element_wise(rows["producer"], rows["channel"], "/")
    codes = pc.dictionary_encode(names).combine_chunks()
    order = np.lexsort((rows["offset"].to_numpy(), codes.indices.to_numpy()))
    numbers, groups = numbers[order], codes.indices.to_numpy()[order]
    expected = np.tile(np.arange(MESSAGES), len(codes.dictionary))
    unique = len(np.unique(np.stack([groups, numbers]), axis=1).T)
    lost = CHANNELS * MESSAGES - unique
    duplicates = len(numbers) - unique
    breaks = int(np.count_nonzero(numbers != expected)) if not (lost or duplicates) else -1
    figures: list[tuple[str, object]] = [
        ("channels with rows", len(codes.dictionary)),
        ("rows", len(numbers)),
        ("lost_after_ack", lost),
        ("duplicates", duplicates),
        ("order_breaks", breaks),
    ]
    return figures, (lost, duplicates, breaks) == (0, 0, 0)
