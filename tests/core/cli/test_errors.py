"""Bad input: one clear line on standard error and the right exit code."""

from __future__ import annotations

import datetime
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from aqueduct_core.cli.main import main
from aqueduct_core.transport.tls.credentials import self_signed
from tests.core.cli.running import AQUEDUCT, aqueduct, listening, one_error, totals
from tests.support.ports import free_port
from tests.support.waiting import LONG


def test_nobody_listens_there(certificates: Path) -> None:
    url = f"aqueduct://127.0.0.1:{free_port()}"
    done = aqueduct("send", url, "--ca", certificates / "ca.pem", stdin=b"x")
    assert url.removeprefix("aqueduct://") in one_error(done, "AQUEDUCT_CONNECT.REFUSED")


def test_a_host_that_is_not_known(certificates: Path) -> None:
    done = aqueduct("send", "aqueduct://no-such-host.invalid:1", "--ca", certificates / "ca.pem")
    assert "no-such-host.invalid" in one_error(done, "AQUEDUCT_CONNECT.DNS")


@pytest.mark.parametrize("url", ["http://h:1", "aqueduct://h", "127.0.0.1:4433"])
def test_urls_of_another_form(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["send", url]) == 1
    line = capsys.readouterr().err
    assert line.startswith("[AQUEDUCT_INVALID_OPTION.BAD_VALUE] ")
    assert url in line


def test_certificates(certificates: Path, tmp_path: Path) -> None:
    with listening(certificates, "-J") as listener:
        one_error(aqueduct("send", listener.url, stdin=b"x"), "AQUEDUCT_TLS.UNKNOWN_CA")
        done = aqueduct("send", listener.url, "--ca", tmp_path / "missing.pem", stdin=b"x")
        assert "missing.pem" in one_error(done, "AQUEDUCT_INVALID_OPTION.BAD_VALUE")
        done = aqueduct(
            "send", listener.url, "--ca", certificates / "ca.pem", "--server-name", "other.example"
        )
        line = one_error(done, "AQUEDUCT_TLS.NAME_MISMATCH")
        assert "is for localhost, 127.0.0.1, ::1, and not for 'other.example'" in line
    done = aqueduct("send", "aqueduct://192.0.2.1:4433", "--insecure", stdin=b"x")
    assert "loopback" in one_error(done, "AQUEDUCT_INVALID_OPTION.BAD_VALUE")


def test_a_listener_without_certificate(certificates: Path, tmp_path: Path) -> None:
    done = aqueduct("listen", "127.0.0.1:0")
    assert "--self-signed" in one_error(done, "AQUEDUCT_INVALID_OPTION.MISSING")
    done = aqueduct("listen", "127.0.0.1:0", "--cert", tmp_path / "no.pem", "--key", tmp_path / "k")
    assert "no.pem" in one_error(done, "AQUEDUCT_INVALID_OPTION.BAD_VALUE")
    done = aqueduct("listen", "127.0.0.1:0", "--self-signed", "--cert", certificates / "cert.pem")
    one_error(done, "AQUEDUCT_INVALID_OPTION.CONFLICT")


def test_a_listener_with_an_expired_certificate(tmp_path: Path) -> None:
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=30)
    issued = self_signed(["127.0.0.1"], days=1, at=past)
    (tmp_path / "cert.pem").write_bytes(issued.cert_pem)
    (tmp_path / "key.pem").write_bytes(issued.key_pem)
    files = ("--cert", tmp_path / "cert.pem", "--key", tmp_path / "key.pem")
    assert "cert.pem" in one_error(
        aqueduct("listen", "127.0.0.1:0", *files), "AQUEDUCT_TLS.EXPIRED"
    )
    done = aqueduct("doctor", "--no-spark", tmp_path / "cert.pem")
    assert b"bad   cert cert.pem" in done.stdout
    assert done.returncode == 1


def test_a_port_in_use(certificates: Path) -> None:
    with listening(certificates, "-J") as listener:
        where = listener.url.removeprefix("aqueduct://")
        done = aqueduct(
            "listen", where, "--cert", certificates / "cert.pem", "--key", certificates / "key.pem"
        )
        assert where in one_error(done, "AQUEDUCT_CONNECT.REFUSED")


def test_tokens(certificates: Path, tmp_path: Path) -> None:
    right, wrong, empty = tmp_path / "right", tmp_path / "wrong", tmp_path / "empty"
    right.write_text("s3cret\n")
    wrong.write_text("gu3ss\n")
    empty.write_text("\n")
    trust = ("--ca", certificates / "ca.pem")
    with listening(certificates, "-J", "-c", "1", "--token-file", right) as listener:
        for extra in ((), ("--token-file", wrong)):
            done = aqueduct("send", listener.url, *trust, *extra, stdin=b"x")
            line = one_error(done, "AQUEDUCT_AUTH.REJECTED")
            assert "s3cret" not in line
            assert "gu3ss" not in line
        for path in (empty, tmp_path / "missing"):
            done = aqueduct("send", listener.url, *trust, "--token-file", path)
            assert path.name in one_error(done, "AQUEDUCT_AUTH.MISSING")
        done = aqueduct("send", listener.url, *trust, "--token-file", right, stdin=b"x")
        assert done.returncode == 0, done.stderr
        assert listener.end()[0] == 0


def test_garbage_on_the_port_is_ignored(certificates: Path) -> None:
    with listening(certificates, "-J", "-c", "1") as listener:
        host, _, port = listener.url.removeprefix("aqueduct://").rpartition(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for i in range(500):
                sock.sendto(bytes([0xC0 | i % 64]) * (i * 3 % 1400), (host, int(port)))
        done = aqueduct("send", listener.url, "--ca", certificates / "ca.pem", stdin=b"x")
        assert done.returncode == 0, done.stderr
        assert len(listener.rows()) >= 2


def test_a_payload_over_the_limit(certificates: Path, tmp_path: Path) -> None:
    (tmp_path / "huge").write_bytes(bytes(16_000_001))
    with listening(certificates, "-J") as listener:
        done = aqueduct(
            "send", listener.url, "--ca", certificates / "ca.pem", "--whole-file", tmp_path / "huge"
        )
    assert done.returncode == 1
    assert b"16000001 bytes" in done.stderr
    assert totals(done)["sent"] == 0


def test_a_file_that_is_missing(certificates: Path, tmp_path: Path) -> None:
    with listening(certificates, "-J") as listener:
        done = aqueduct("send", listener.url, "--ca", certificates / "ca.pem", tmp_path / "no-file")
    line = one_error(done, "AQUEDUCT_INVALID_OPTION.BAD_VALUE")
    assert f"the file {tmp_path / 'no-file'} cannot be read: No such file" in line


def test_a_format_with_an_unknown_token(certificates: Path) -> None:
    done = aqueduct("listen", "127.0.0.1:0", "--self-signed", "-f", "%q")
    assert "'%q'" in one_error(done, "AQUEDUCT_INVALID_OPTION.BAD_VALUE")


def test_acks_that_do_not_come_in_time(certificates: Path) -> None:
    """The listener is stopped, so nothing answers; the sender says how many have no ack."""
    with listening(certificates) as listener:
        command = aqueduct_command(listener.url, certificates)
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as sending:
            listener.line(r"# (connected).*")
            listener.process.send_signal(signal.SIGSTOP)
            out, errors = sending.communicate(b"x\ny\n", timeout=LONG)
            listener.process.send_signal(signal.SIGCONT)
        assert sending.returncode == 1
        assert b"[AQUEDUCT_SINK.ACK_TIMEOUT] 2 of 2 messages" in errors
        assert out.startswith(b"sent=2 acked=0")


def aqueduct_command(url: str, certificates: Path) -> list[str]:
    trust = str(certificates / "ca.pem")
    return [*AQUEDUCT, "send", url, "--ca", trust, "--ack-timeout", "500ms"]
