"""``aqueduct demo``: this machine's telemetry through Aqueduct channels into a Spark table.

Starts the job ingest (its intake runs on the executor), three producers with one channel each,
shows live progress, lets the producers finish and the job drain, and runs a second job,
``aqueduct_jobs.demo.report``, whose last lines are the ledger. Everything it writes is below
``--out``; everything it starts is ended. Exit code 0 only when nothing acked was lost, nothing is
there twice and the ordered channel is in order.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aqueduct_core.cli import conf
from aqueduct_core.cli.job import spark_environment, submit_arguments

CHANNELS = {"processes": "ordered", "counters": "unordered", "load": "unreliable"}
START_SECONDS = 120.0
DRAIN_SECONDS = 120.0
LEASE_SECONDS = 15.0
POLL_SECONDS = 0.5
OURS = ("tls", "spool", "table", "checkpoint", "ledger", "progress.json", "stop")


class DemoError(Exception):
    """A step of the demo failed; the text says which and where its log is."""


class Processes:
    """The processes that the demo started; ``close`` ends each with its whole group."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._all: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with (self._out / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._all.append(process)
        return process

    def close(self) -> None:
        for process in self._all:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
        for process in self._all:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def ingest_command(out: Path) -> list[str]:
    settings = {
        "source.spool": out / "spool",
        "source.lease": f"{LEASE_SECONDS:.0f}s",
        "source.tls.certFile": out / "tls" / "cert.pem",
        "source.tls.keyFile": out / "tls" / "key.pem",
        "sink.path": out / "table",
        "sink.checkpointLocation": out / "checkpoint",
        "query.stopFile": out / "stop",
        "query.progressFile": out / "progress.json",
    }
    pairs = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    file = str(conf.FOLDER / "demo.toml")
    return [sys.executable, "-m", "aqueduct_jobs.ingest", "--config", file, *pairs]


def environment() -> dict[str, str]:
    """Of both jobs: a Spark on this machine with the settings that come with the package."""
    file = conf.FOLDER / "spark-defaults.conf"
    return spark_environment(
        os.environ, submit_arguments("local[2]", file, ["spark.ui.enabled=false"])
    )


def producer_command(
    channel: str, mode: str, endpoint: str, out: Path, seconds: float
) -> list[str]:
    return [
        sys.executable, "-m", "aqueduct_jobs.demo.producer", channel,
        "--mode", mode,
        "--endpoint", endpoint,
        "--ca", str(out / "tls" / "ca.pem"),
        "--seconds", str(seconds),
        "--ledger", str(out / "ledger" / f"{channel}.json"),
    ]  # fmt: skip


def until(seconds: float) -> Iterator[None]:
    """Turns of a bounded wait, one each ``POLL_SECONDS``."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        yield
        time.sleep(POLL_SECONDS)


def load_json(path: Path) -> dict[str, Any]:
    """The object in ``path``; empty while nobody has written it."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return found


def wait_for_intake(ingest: subprocess.Popen[bytes], out: Path) -> dict[str, Any]:
    for _ in until(START_SECONDS):
        status = load_json(out / "spool" / "intake-0" / "status.json")
        if status:
            return status
        if ingest.poll() is not None:
            raise DemoError(f"the job ended before its intake was up; see {out / 'ingest.log'}")
    raise DemoError(f"no intake within {START_SECONDS:.0f} s; see {out / 'ingest.log'}")


def wait_for_end(out: Path) -> None:
    """The intake ends itself when no query has asked for it for its lease."""
    for _ in until(LEASE_SECONDS + 5):
        if load_json(out / "spool" / "intake-0" / "status.json").get("state") == "ended":
            return
    raise DemoError(f"the intake did not end; see {out / 'spool' / 'intake-0' / 'intake.log'}")


def show(out: Path, begun: float) -> None:
    """One line: what the producers have had acked and what the table holds."""
    # In this order: what is in the table was sent before.
    rows = load_json(out / "progress.json").get("rows", 0)
    ledgers = [load_json(out / "ledger" / f"{name}.json") for name in CHANNELS]
    sent = sum(ledger.get("sent", 0) for ledger in ledgers)
    acked = sum(ledger.get("acked", 0) for ledger in ledgers)
    elapsed = time.monotonic() - begun
    text = f"{elapsed:4.0f} s   sent {sent:,}   acked {acked:,}   in the table {rows:,}"
    if sys.stderr.isatty():
        print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr)


def produce(
    processes: Processes, ingest: subprocess.Popen[bytes], endpoint: str, out: Path, seconds: float
) -> None:
    """Run the three producers to their FINISH, with progress."""
    (out / "ledger").mkdir()
    producers = {
        name: processes.start(name, producer_command(name, mode, endpoint, out, seconds))
        for name, mode in CHANNELS.items()
    }
    begun = time.monotonic()
    shown = begun
    for _ in until(seconds + DRAIN_SECONDS):
        if ingest.poll() is not None:
            raise DemoError(f"the job ended too early; see {out / 'ingest.log'}")
        failed = [n for n, p in producers.items() if p.poll() not in (None, 0)]
        if failed:
            raise DemoError(f"the producer of {failed[0]} failed; see {out / f'{failed[0]}.log'}")
        if sys.stderr.isatty() or time.monotonic() - shown >= 5:
            shown = time.monotonic()
            show(out, begun)
        if all(p.poll() == 0 for p in producers.values()):
            break
    else:
        raise DemoError(f"the producers did not finish; see the logs in {out}")
    show(out, begun)
    if sys.stderr.isatty():
        print(file=sys.stderr)


def run(out: Path, seconds: float) -> int:
    out.mkdir(parents=True, exist_ok=True)
    for name in OURS:
        path = out / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    subprocess.run(
        [sys.executable, "-m", "aqueduct_core.cli.main", "cert", str(out / "tls")],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    processes = Processes(out)
    try:
        say("starting Spark and the job ingest; its first batch launches the intake")
        ingest = processes.start("ingest", ingest_command(out))
        status = wait_for_intake(ingest, out)
        say(
            f"intake {status['pid']} listens at {status['listen']}; "
            f"three producers run for {seconds:.0f} s"
        )
        produce(processes, ingest, f"aqueduct://{status['listen']}", out, seconds)
        say("the producers have finished their channels; the job drains what is stored")
        (out / "stop").touch()
        try:
            code = ingest.wait(DRAIN_SECONDS)
        except subprocess.TimeoutExpired:
            raise DemoError(f"the job did not drain; see {out / 'ingest.log'}") from None
        if code != 0:
            raise DemoError(f"the job failed with exit code {code}; see {out / 'ingest.log'}")
        say("a second job reads the table")
        report = [sys.executable, "-m", "aqueduct_jobs.demo.report", "--out", str(out)]
        with (out / "report.log").open("wb") as log:
            done = subprocess.run(report, env=environment(), stderr=log, check=False)
        wait_for_end(out)
        return done.returncode
    finally:
        processes.close()


def say(text: str) -> None:
    print(f"demo: {text}", file=sys.stderr)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="aqueduct demo")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--out", type=Path, default=Path("demo-out"))
    args = parser.parse_args(argv)
    try:
        return run(args.out.resolve(), args.seconds)
    except DemoError as error:
        say(str(error))
    except KeyboardInterrupt:
        say("interrupted; everything that was started has been ended")
    return 1


if __name__ == "__main__":
    sys.exit(main())
