"""``aqueduct top`` on a terminal, in a pipe, and the keys."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from aqueduct_core.cli.monitor.screen import TopView
from aqueduct_core.cli.monitor.top import changed
from tests.core.cli.running import AQUEDUCT, aqueduct, plain, seen
from tests.core.intake.lives import run, send_some
from tests.support.intake_process import Site
from tests.support.waiting import LONG


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_once_and_as_json(site: Site) -> None:
    with site.intake(name="till") as intake:
        run(send_some(intake.url, site, "orders", 100))
        long = "till/receipts/with/a/name/that/is/as/long/as/many/are/in/practice"
        run(send_some(intake.url, site, long, 1))
        done = aqueduct("top", site.spool, "--once", "--sort", "messages")
        assert done.returncode == 0, done.stderr
        lines = done.stdout.decode().splitlines()
        assert lines[0].startswith("aqueduct top till  ● live")
        assert any(line.startswith("orders") and " 100 " in line for line in lines)
        assert long in done.stdout.decode()
        assert "\x1b" not in done.stdout.decode()
        found = aqueduct("top", site.spool.parent, "-J", "--once", "--filter", "orders")
        [told] = json.loads(found.stdout)["intakes"]
        assert [each["messages"] for each in told["status"]["activity"]["channels"]] == [100]
        assert site.credentials.token not in found.stdout.decode()
    gone = aqueduct("top", site.spool, "--once")
    assert gone.returncode == 1
    assert "does not answer" in "".join(gone.stdout.decode().split("\n"))


def test_on_a_terminal_it_ends_with_a_key_and_leaves_the_screen_as_it_was(site: Site) -> None:
    with site.intake(name="till"):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        before = termios.tcgetattr(theirs)
        process = subprocess.Popen(
            [*AQUEDUCT, "top", site.spool],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=os.environ | {"TERM": "xterm", "NO_COLOR": "1"},
        )
        shown = b""
        while b"q quit" not in shown:
            shown += os.read(ours, 1 << 16)
        os.write(ours, b"/nobody\r")
        while b"with 'nobody'" not in shown:
            shown += os.read(ours, 1 << 16)
        os.write(ours, b"q")
        while b"\x1b[?1049l" not in shown:
            shown += os.read(ours, 1 << 16)
        assert process.wait(LONG) == 0
        assert termios.tcgetattr(theirs) == before
        os.close(ours)
        os.close(theirs)
        assert b"\x1b[?1049h" in shown
        assert b"\x1b[3" not in shown  # no colour


def test_without_a_keyboard_a_terminal_shows_it_once(site: Site) -> None:
    with site.intake(name="till"):
        code, shown = seen("top", site.spool, "--once", TERM="xterm", COLUMNS="100")
    assert code == 0
    assert plain(shown).startswith("aqueduct top till")


@pytest.mark.parametrize(
    ("keys", "view"),
    [
        ("s", TopView(order="messages")),
        ("ssssssss", TopView()),
        ("c", TopView(peers=True)),
        ("p", TopView(paused=True)),
        ("/or", TopView(search="or", typing=True)),
        ("/orx\x7f\r", TopView(search="or")),
        ("/or\x1b", TopView()),
        ("/sc\r", TopView(search="sc")),
        ("/or\r\x1b", TopView()),
        ("z", TopView()),
        ("/\x01a\r", TopView(search="a")),
    ],
)
def test_keys_change_the_view(keys: str, view: TopView) -> None:
    found = TopView()
    for key in keys:
        found = changed(found, key)
    assert found == view
