"""``aqueduct intake`` as a process: producers on one side, a reader of the spool on the other."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.core.cli.running import TIMEOUT, aqueduct, one_error, totals
from tests.support.remote import RemoteThread, Script
from tests.support.standalone import running


@pytest.fixture
def config(tmp_path: Path, certificates: Path) -> Path:
    path = tmp_path / "intake.toml"
    path.write_text(
        f'spool = "{tmp_path}/spool"\npartitions = 1\nlisten = "127.0.0.1:0"\n'
        f'[tls]\ncertFile = "{certificates}/cert.pem"\nkeyFile = "{certificates}/key.pem"\n'
    )
    return path


def test_producers_send_queries_read_and_sigterm_drains(config: Path, certificates: Path) -> None:
    with running(config, "-J") as intake:
        ready = intake.ready
        assert ready["pid"] == intake.process.pid
        assert len(ready["fingerprint"].split(":")) == 32
        done = aqueduct(
            "send", f"aqueduct://{ready['listen']}", "--ca", certificates / "ca.pem",
            stdin=b"1\n2\n3\n",
        )  # fmt: skip
        assert totals(done)["acked"] == 3
        assert intake.values(3) == [b"1", b"2", b"3"]
        token = Path(ready["tokenFile"]).read_text().strip()
        intake.process.send_signal(signal.SIGHUP)
        intake.process.terminate()
        assert intake.process.wait(TIMEOUT) == 0
        assert intake.process.stderr is not None
        log = intake.process.stderr.read().decode()
        assert "ending: SIGTERM" in log
        assert token not in log + intake.line
        assert "ERROR" not in log
    with running(config, "-J") as again:
        assert (again.ready["id"], again.ready["epoch"]) == (ready["id"], 2)
        assert again.values(3) == [b"1", b"2", b"3"]
        again.process.send_signal(signal.SIGINT)
        assert again.process.wait(TIMEOUT) == 0


def test_the_ready_line_for_people_names_options(config: Path) -> None:
    with running(config) as intake:
        words = intake.line.split()
        assert words[0] == "ready"
        named = dict(word.split("=", 1) for word in words[1:])
        assert set(named) == {
            "pid", "listen", "fingerprint", "intakes", "tls.caFile", "auth.tokenFile",
        }  # fmt: skip
        for key in ("tls.caFile", "auth.tokenFile"):
            assert os.path.isabs(named[key])
            assert Path(named[key]).is_file()
        assert Path(named["auth.tokenFile"]).read_text().strip() not in intake.line


def test_the_ready_line_names_the_host_where_it_listens_at_all_of_its_addresses(
    config: Path,
) -> None:
    config.write_text('flight = "0.0.0.0:0"\n' + config.read_text())
    with running(config, "-J") as intake:
        assert intake.ready["flight"].rpartition(":")[0] == socket.gethostname()


def test_it_dials_as_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "intake.toml"
    with RemoteThread({"a": Script(messages=4)}, tmp_path) as remote:
        path.write_text(
            f'spool = "{tmp_path}/spool"\npartitions = 1\n'
            f'[connect]\nendpoints = ["aqueduct://{remote.endpoint}"]\nsubscriptions = ["a"]\n'
            f'caFile = "{remote.ca_file}"\n'
        )
        with running(path, "-J") as intake:
            assert (intake.ready["listen"], intake.ready["fingerprint"]) == ("", None)
            assert intake.values(4) == [b"a 0", b"a 1", b"a 2", b"a 3"]
            intake.process.terminate()
            assert intake.process.wait(TIMEOUT) == 0


def test_mistakes_are_one_line(config: Path, tmp_path: Path) -> None:
    right = config.read_text()

    def error(text: str, name: str) -> str:
        config.write_text(text)
        return one_error(aqueduct("intake", "--config", config), name)

    assert "pool" in error(right.replace("spool =", "pool ="), "AQUEDUCT_INVALID_OPTION.UNKNOWN")
    without = "\n".join(right.splitlines()[1:])
    assert "no spool" in error(without, "AQUEDUCT_INVALID_OPTION.MISSING")
    nowhere = right.replace("cert.pem", "none.pem")
    assert "none.pem" in error(nowhere, "AQUEDUCT_INVALID_OPTION.BAD_VALUE")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        used = f"127.0.0.1:{taken.getsockname()[1]}"
        busy = right.replace("127.0.0.1:0", used)
        assert used in error(busy, "AQUEDUCT_CONNECT.REFUSED")
    with socket.create_server(("127.0.0.1", 0)) as server:
        used = f"127.0.0.1:{server.getsockname()[1]}"
        text = right.replace("partitions", f'flight = "{used}"\npartitions')
        assert used in error(text, "AQUEDUCT_INTAKE.UNREACHABLE")
    (tmp_path / "occupied").write_text("")
    text = right.replace("partitions", f'keys = "{tmp_path}/occupied"\npartitions')
    assert "occupied" in error(text, "AQUEDUCT_SPOOL.IO")
    done = aqueduct("intake", "--config", tmp_path / "none.toml")
    one_error(done, "AQUEDUCT_INVALID_OPTION.BAD_VALUE")
    assert aqueduct("intake").returncode == 2


def test_a_second_one_on_the_same_spool_is_refused(config: Path) -> None:
    with running(config, "-J") as intake:
        assert intake.ready["ready"]
        one_error(aqueduct("intake", "--config", config), "AQUEDUCT_SPOOL.LOCKED")
