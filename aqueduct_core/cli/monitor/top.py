"""``aqueduct top PLACE…``: what goes on in intakes, in a terminal."""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from aqueduct_core.cli.console.arguments import duration
from aqueduct_core.cli.console.terminal import console, is_terminal
from aqueduct_core.cli.monitor.watched import WatchedIntakes, add_places
from aqueduct_core.flight.activity import MOST_CHANNELS, ChannelOrder, ChannelQuery
from aqueduct_core.monitoring.health import ObservedIntake

if TYPE_CHECKING:
    from aqueduct_core.cli.monitor.screen import TopView

SHORTEST = 0.5

PIPED = 200
"""Columns where there is no terminal: no name is cut."""

ENTER, ESCAPE, ERASE = ("\r", "\n"), "\x1b", ("\x7f", "\b")


EXAMPLES = [
    (
        "all intakes of a query, as they go on",
        "aqueduct top spool/orders",
    ),
    (
        "the channels that have been quiet for longest, once",
        "aqueduct top spool/orders --once --sort quiet",
    ),
    (
        "for a script",
        "aqueduct top spool/orders -J --once | jq '.intakes[].status.lag'",
    ),
]


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "top",
        help="watch what goes on in intakes",
        description="Shows rates, lag, channels and connections of intakes, live. PLACE is the "
        "directory of an intake, the spool option of a query with all its intakes, or HOST:PORT. "
        "Where standard output is no terminal it prints once. Keys: q quit, s next order, "
        "/ search, c connections or channels, p pause.",
        examples=EXAMPLES,
    )
    add_places(parser)
    parser.add_argument("--once", action="store_true", help="print it once and end")
    parser.add_argument("-J", dest="json", action="store_true", help="a JSON object a line")
    parser.add_argument(
        "--every",
        type=duration,
        default=2.0,
        metavar="TIME",
        help="between two looks (default: 2s)",
    )
    parser.add_argument(
        "--sort", choices=get_args(ChannelOrder), default="rate", help="order of the channels"
    )
    parser.add_argument(
        "--filter", default="", metavar="TEXT", help="channels whose name, producer or peer has it"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from aqueduct_core.cli.monitor.screen import TopView

    view = TopView(options.sort, options.filter)
    every = max(SHORTEST, options.every)
    with WatchedIntakes.of(options) as watched:
        if options.json:
            return _print_json(watched, view, every, options.once)
        if options.once or not is_terminal(sys.stdout):
            seen = _look(watched, view)
            out = console(sys.stdout)
            out.width = out.width if is_terminal(sys.stdout) else PIPED
            out.print(_drawn(seen, view, out.width, None))
            return 0 if all(each.status is not None for each in seen) else 1
        with _terminated():
            return _live(watched, view, every)


def _print_json(watched: WatchedIntakes, view: TopView, every: float, once: bool) -> int:
    while True:
        seen = _look(watched, view)
        line = {"at": time.time(), "intakes": [each.to_json() for each in seen]}
        print(json.dumps(line), flush=True)
        if once:
            return 0 if all(each.status is not None for each in seen) else 1
        time.sleep(every)


def _live(watched: WatchedIntakes, view: TopView, every: float) -> int:
    from rich.live import Live

    shown = console(sys.stdout)
    keys = Keys(sys.stdin.fileno()) if is_terminal(sys.stdin) else None
    seen = _look(watched, view)
    due = time.monotonic() + every
    with Live(console=shown, screen=True, auto_refresh=False) as live, _unbuffered(keys):
        while True:
            drawn = _drawn(seen, view, shown.width, shown.height)
            live.update(drawn, refresh=True)
            wait = max(0.0, due - time.monotonic())
            pressed = keys.read(wait) if keys is not None else _slept(wait)
            for key in pressed:
                if key in ("q", "\x03") and not (view.typing and key == "q"):
                    return 0
                before, view = view, changed(view, key)
                if before != view:
                    due = 0.0
            if time.monotonic() >= due and not (view.paused and not pressed):
                seen = _look(watched, view)
                due = time.monotonic() + every


def changed(view: TopView, key: str) -> TopView:
    """What a person has chosen, after a key."""
    if view.typing:
        if key in ENTER:
            return replace(view, typing=False)
        if key == ESCAPE:
            return replace(view, typing=False, search="")
        if key in ERASE:
            return replace(view, search=view.search[:-1])
        return replace(view, search=view.search + key) if key.isprintable() else view
    match key:
        case "s":
            return view.next_order()
        case "/":
            return replace(view, typing=True)
        case "c":
            return replace(view, peers=not view.peers)
        case "p":
            return replace(view, paused=not view.paused)
        case _ if key == ESCAPE:
            return replace(view, search="")
        case _:
            return view


class Keys:
    """The keys that were pressed on a terminal."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def read(self, seconds: float) -> str:
        """Those of now, after so many seconds at most; "" where none was. At the end of the input
        it is as if ``q`` was pressed."""
        readable, _, _ = select.select([self.descriptor], [], [], seconds)
        if not readable:
            return ""
        data = os.read(self.descriptor, 1024)
        if not data:
            return "q"
        if data.startswith(b"\x1b") and len(data) > 1:
            return ""  # an arrow or another key that has no meaning here
        return data.decode(errors="replace")


def _look(watched: WatchedIntakes, view: TopView) -> list[ObservedIntake]:
    most = min(MOST_CHANNELS, 200)
    return watched.observe(ChannelQuery(view.search, view.order, most, most))


def _drawn(seen: Sequence[ObservedIntake], view: TopView, width: int, height: int | None) -> Any:
    from aqueduct_core.cli.monitor.screen import screen

    return screen(seen, view, width=width, height=height, at=time.strftime("%H:%M:%S"))


def _slept(seconds: float) -> str:
    time.sleep(seconds)
    return ""


@contextmanager
def _unbuffered(keys: Keys | None) -> Iterator[None]:
    """Each key at once, and none of them shown."""
    if keys is None:
        yield
        return
    before = termios.tcgetattr(keys.descriptor)
    tty.setcbreak(keys.descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(keys.descriptor, termios.TCSADRAIN, before)


@contextmanager
def _terminated() -> Iterator[None]:
    """SIGTERM leaves the terminal as it was."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
