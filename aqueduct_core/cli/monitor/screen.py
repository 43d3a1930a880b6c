"""What ``aqueduct top`` draws: one screen of a given size, from what was observed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TypeAlias, TypeVar, get_args

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from aqueduct_core.escape import escaped
from aqueduct_core.flight.activity import PEER_ORDERS, ChannelOrder, ChannelStatus, PeerStatus
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.monitoring.health import ObservedIntake, troubles
from aqueduct_core.monitoring.summary import RateSample, Summary

ORDERS: tuple[ChannelOrder, ...] = get_args(ChannelOrder)
"""As the key ``s`` goes through them."""

BARS = " ▁▂▃▄▅▆▇█"
MOST_PROBLEMS = 4
MOST_CURSORS = 6
FEWEST_CHANNELS = 3

WIDE = 110
"""Columns of a terminal that has room for who sends."""

SAMPLES = 300
"""Of ten minutes, two seconds apart."""

Shown = TypeVar("Shown", ChannelStatus, PeerStatus)
Placed: TypeAlias = tuple[Shown, str]
"""What is shown, and the name of its intake."""

GAP = 2
NARROWEST = 8


@dataclass(frozen=True, slots=True)
class TopView:
    """What a person has chosen. ``typing``: the search is being typed."""

    order: ChannelOrder = "rate"
    search: str = ""
    typing: bool = False
    peers: bool = False
    paused: bool = False

    def next_order(self) -> TopView:
        at = ORDERS.index(self.order)
        return replace(self, order=ORDERS[(at + 1) % len(ORDERS)])


def screen(
    seen: Sequence[ObservedIntake],
    view: TopView,
    *,
    width: int,
    height: int | None,
    at: str,
) -> RenderableType:
    """Lines of ``width`` columns; no more than ``height`` of them (None: as many as there are).
    ``at``: the time of day."""
    statuses = [each.status for each in seen if each.status is not None]
    summary = Summary.of(statuses)
    problems = [
        Text(f"! {problem}", "bold red", no_wrap=height is not None, overflow="ellipsis")
        for problem in _problems(seen)[:MOST_PROBLEMS]
    ]
    if not statuses:  # figures of nobody would be taken for figures
        return Group(_title(seen, at, view), *problems, _keys(view, height is not None))
    cursors = min(MOST_CURSORS, len(summary.cursors))
    head: list[RenderableType] = [
        _title(seen, at, view),
        *_totals(summary, width),
        *problems,
        _cursors(summary, cursors, width),
    ]
    used = 4 + len(problems) + cursors + 1 + 1 + 2  # titles of tables, the last line
    room = None if height is None else max(FEWEST_CHANNELS, height - used)
    acting = [(each, each.activity) for each in statuses if each.activity is not None]
    several = len(seen) > 1
    if view.peers:
        peers = ordered([(p, _name(at)) for at, each in acting for p in each.peers], view.order)
        found = sum(each.peers_found for _, each in acting)
        body = _peers(peers[:room], found, view, width, several)
    else:
        channels = ordered(
            [(c, _name(at)) for at, each in acting for c in each.channels], view.order
        )
        found = sum(each.channels_found for _, each in acting)
        body = _channels(channels[:room], found, view, width, several)
    return Group(*head, body, _keys(view, height is not None))


def ordered(found: list[Placed[Shown]], order: ChannelOrder) -> list[Placed[Shown]]:
    """Those of several intakes, in one order; of a tree each intake's behind another's, and of
    connections the busiest first where the order has no meaning for them."""
    if order == "tree":
        return found
    if order == "name":
        return sorted(found, key=lambda each: getattr(each[0], "name", ""))
    if order == "quiet":
        open_first = sorted(found, key=lambda each: -each[0].quiet)
        return sorted(open_first, key=lambda each: getattr(each[0], "state", "open") != "open")
    return sorted(found, key=lambda each: -getattr(each[0], order, each[0].rate))


def _name(status: IntakeStatus) -> str:
    return escaped(status.name or status.listen or status.flight, 40)


def _line(*parts: str | tuple[str, str]) -> Text:
    """One line, cut where the terminal ends."""
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _title(seen: Sequence[ObservedIntake], at: str, view: TopView) -> Text:
    names = [each.status.name or each.place if each.status else each.place for each in seen]
    shown = escaped(names[0], 40) if len(names) == 1 else f"{len(names)} intakes"
    answers = sum(each.status is not None for each in seen)
    live = (
        ("● live", "green")
        if answers == len(seen)
        else (f"◐ {answers} of {len(seen)} answer", "yellow")
    )
    if view.paused:
        live = ("‖ paused", "yellow")
    return _line(("aqueduct top ", "bold"), shown, "  ", live, f"  {at}")


def _totals(found: Summary, width: int) -> list[Text]:
    acked = (
        "–" if found.acked is None else "> 30 s" if found.acked == inf else f"≤ {span(found.acked)}"
    )
    spool = f"{size(found.stored)}" + (f" of {size(found.limit)}" if found.limit else "")
    used = found.stored / found.limit if found.limit else 0.0
    first = _line(
        ("messages/s ", "dim"), (f"{short(found.messages):<8}", "bold"),
        ("payload/s ", "dim"), (f"{size(found.bytes):<10}", "bold"),
        ("behind " if found.read else "not read ", "dim"), (f"{short(found.behind)}", "bold"),
        f", {span(found.oldest)}  " if found.behind else "  ",
        ("acked ", "dim"), acked,
    )  # fmt: skip
    second = _line(
        ("spool ", "dim"), spool, (f" {used:.0%}  " if found.limit else "  ", _grade(used)),
        ("connections ", "dim"), f"{found.connections}  ",
        ("channels ", "dim"), f"{found.channels}  ",
        ("repeated ", "dim"), f"{short(found.repeated)}  ",
        ("lost ", "dim"), short(found.lost),
    )  # fmt: skip
    return [first, second, _spark(found.history, width)]


def _grade(used: float) -> str:
    return "bold red" if used >= 0.95 else "yellow" if used >= 0.8 else ""


def _spark(history: Sequence[RateSample], width: int) -> Text:
    label = "10 min "
    room = max(10, width - len(label) - 16)
    values = [each.messages for each in history[-SAMPLES:]]
    step = -(-SAMPLES // room)
    first = len(values) % step or step
    stretches = [values[max(0, to - step) : to] for to in range(first, len(values) + 1, step)]
    means = [sum(each) / len(each) for each in stretches if each]
    most = max(means, default=0.0)
    line = "".join(BARS[round(each / most * 8) if most else 0] for each in means)
    return _line(
        (label, "dim"),
        (f"{line:>{-(-SAMPLES // step)}}", "cyan"),
        (f" most {short(most)}/s", "dim"),
    )


def _problems(seen: Sequence[ObservedIntake]) -> list[str]:
    found = []
    for each in seen:
        if each.status is None:
            found.append(escaped(each.error, None))
        else:
            name = escaped(each.status.name, 40)
            found += [f"{name}: {escaped(reason, None)}" for reason in troubles(each.status)]
    return found


def _cursors(summary: Summary, shown: int, width: int) -> RenderableType:
    if not summary.cursors:
        return Text("no query has read from here yet: everything is kept", "dim")
    rows = [
        (
            Text(escaped(lag.cursor, 80)),
            lag.view,
            f"{lag.records:,}",
            size(lag.bytes),
            span(lag.seconds) if lag.records else "–",
            Text("● reads", "green") if lag.held else Text("○ nobody reads", "yellow"),
        )
        for lag in summary.cursors[:shown]
    ]
    return _table(("cursor", "reads", ">behind", ">bytes", ">oldest", "state"), rows, width)


def _channels(
    channels: Sequence[Placed[ChannelStatus]], found: int, view: TopView, width: int, several: bool
) -> RenderableType:
    rows = []
    for each, intake in channels:
        indent = "  " * min(each.depth, 6) if view.order == "tree" else ""
        colour = {"open": "green", "finished": ""}.get(each.state, "yellow")
        mark = {"open": "●", "finished": "✓"}.get(each.state, "✕")
        rows.append(
            (
                Text(indent + escaped(each.name, 80)),
                short(each.rate if each.rate >= 0.005 else 0),
                short(each.messages),
                size(each.bytes),
                span(each.quiet),
                short(each.repeated),
                short(each.nacked),
                Text(f"{mark} {escaped(each.state, 16)}", colour),
                Text(escaped(each.producer, 40)),
                Text(escaped(each.connection, 40)),
                Text(intake),
            )
        )
    title = f"channels: {len(channels)} of {found:,}, by {view.order}{_sought(view)}"
    columns = ("channel", ">msg/s", ">messages", ">bytes", ">quiet", ">rep.", ">lost", "state",
               "producer", "connection", "intake")  # fmt: skip
    kept = len(columns) - (not several) if width >= WIDE else 8
    return Group(_line((title, "bold")), _table(columns[:kept], rows, width))


def _sought(view: TopView) -> str:
    return f", with {escaped(view.search, 40)!r}" if view.search else ""


def _peers(
    peers: Sequence[Placed[PeerStatus]], found: int, view: TopView, width: int, several: bool
) -> RenderableType:
    rows = [
        (
            Text(escaped(each.address, 50)),
            Text(escaped(each.producer, 30)),
            short(each.rate if each.rate >= 0.005 else 0),
            short(each.messages),
            size(each.bytes),
            str(each.channels),
            span(each.quiet),
            size(each.waiting),
            span(each.age),
            Text(intake),
        )
        for each, intake in peers
    ]
    columns = ("address", "producer", ">msg/s", ">messages", ">bytes", ">channels", ">quiet",
               ">held back", ">connected", "intake")  # fmt: skip
    kept = len(columns) - (not several) if width >= WIDE else 7
    order = view.order if view.order in PEER_ORDERS else "rate"
    title = _line((f"connections: {len(peers)} of {found:,}, by {order}{_sought(view)}", "bold"))
    return Group(title, _table(columns[:kept], rows, width))


def _keys(view: TopView, live: bool) -> Text:
    if view.typing:
        return Text(f"search: {escaped(view.search)}▏  Enter keeps it, Esc clears it", "reverse")
    other = "channels" if view.peers else "connections"
    keys = f"q quit  s order  / search  c {other}  p pause" if live else ""
    return _line((keys, "dim"))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], width: int) -> Table:
    """Only the first column gives way where there is little room: numbers are never cut. A title
    that begins with ``>`` is of numbers."""
    others = [
        max(len(title.lstrip(">")), *(len(row[at]) for row in rows)) if rows else len(title)
        for at, title in enumerate(columns)
        if at
    ]
    first = max(NARROWEST, width - sum(others) - GAP * len(others))
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for at, title in enumerate(columns):
        table.add_column(
            title.lstrip(">"),
            justify="right" if title.startswith(">") else "left",
            no_wrap=True,
            overflow="ellipsis",
            max_width=None if at else first,
        )
    for row in rows:
        table.add_row(*row[: len(columns)])
    return table


def short(value: float) -> str:
    """Of at most six characters."""
    for unit, big in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if value >= big:
            scaled = value / (1e3 if unit == "k" else big)
            return f"{scaled:.0f}{unit}" if scaled >= 100 else f"{scaled:.3g}{unit}"
    return f"{value:.0f}" if value >= 9.95 or value == int(value) else f"{value:.2g}"


def size(count: float) -> str:
    """Bytes in binary units."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"


def span(seconds: float) -> str:
    """A time in its one or two largest units."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if not hours:
        return f"{minutes}m{int(seconds) % 60:02}s"
    return f"{days}d{hours % 24:02}h" if days else f"{hours}h{minutes % 60:02}m"
