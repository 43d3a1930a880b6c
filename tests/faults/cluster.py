"""A standalone Spark cluster of this machine: a master, and workers on loopback addresses.

Each worker has an address of its own, so Spark takes them for different hosts; speculation, which
never starts a second attempt on the host of the first, needs that.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.support.ports import free_port
from tests.support.processes import EXECUTOR, command, descendants
from tests.support.waiting import LONG, environment, send_signal, wait_until

START_SECONDS = LONG
HOME = Path(pyspark.__file__).parent


class Cluster:
    """Its processes; ``url`` is for ``master(…)``. Ends with `close`, executors too."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._port = free_port(socket.SOCK_STREAM)
        self.url = f"spark://127.0.0.1:{self._port}"
        self.master = self._start(
            "master", "org.apache.spark.deploy.master.Master",
            "--host", "127.0.0.1", "--port", str(self._port), "--webui-port", "0",
        )  # fmt: skip
        wait_until(self._listening, START_SECONDS, "a master")
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    def add_worker(self, host: str) -> None:
        """A worker with one core; up when this returns."""
        name = f"worker-{host}"
        self.workers[host] = self._start(
            name, "org.apache.spark.deploy.worker.Worker",
            "--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0",
            "--work-dir", str(self._home / "work" / host), self.url,
        )  # fmt: skip
        log = self._home / f"{name}.log"
        wait_until(
            lambda: "Successfully registered with master" in log.read_text(), START_SECONDS, name
        )

    def executors(self) -> dict[str, list[int]]:
        """The executors of each worker, by its host."""
        return {
            host: [pid for pid in descendants(worker.pid) if EXECUTOR in command(pid)]
            for host, worker in self.workers.items()
        }

    def close(self) -> None:
        pids = [pid for found in self.executors().values() for pid in found]
        for process in [*self.workers.values(), self.master]:
            process.terminate()
        for process in [*self.workers.values(), self.master]:
            try:
                process.wait(LONG)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in pids:
            send_signal(pid, 9)

    def _start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with (self._home / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [str(HOME / "bin" / "spark-class"), *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=environment(SPARK_HOME=str(HOME), SPARK_LOCAL_DIRS=str(self._home / "local")),
            )  # fmt: skip

    def _listening(self) -> bool:
        assert self.master.poll() is None, (self._home / "master.log").read_text()[-2000:]
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0


@contextmanager
def cluster(home: Path, *hosts: str) -> Iterator[Cluster]:
    home.mkdir(parents=True, exist_ok=True)
    made = Cluster(home)
    try:
        for host in hosts:
            made.add_worker(host)
        yield made
    finally:
        made.close()
