"""What is drawn fits its terminal, and shows what a peer wrote as text."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from aqueduct_core.cli.monitor.screen import TopView, screen, short, size, span
from aqueduct_core.flight.activity import ChannelStatus, HistorySample, PeerStatus
from aqueduct_core.monitoring.health import ObservedIntake
from tests.core.monitoring.statuses import activity, status


def drawn(
    *seen: ObservedIntake, view: TopView | None = None, width: int = 80, height: int | None = None
) -> list[str]:
    out = StringIO()
    console = Console(file=out, width=width, color_system=None, markup=False, highlight=False)
    console.print(screen(seen, view or TopView(), width=width, height=height, at="12:00:00"))
    return out.getvalue().splitlines()


ONE = ObservedIntake("spool/intake-0", status())
MANY = ObservedIntake(
    "spool/intake-1",
    status(
        name="many",
        full=True,
        activity=activity(
            channels=tuple(
                ChannelStatus(f"channel-{n:03}-with-a-long-name-of-its-own", "p", "s", n, rate=n)
                for n in range(200)
            ),
            channels_found=10_000,
        ),
    ),
)
GONE = ObservedIntake("spool/intake-2", None, "[AQUEDUCT_INTAKE.UNREACHABLE] it is gone")


def test_a_screen_has_totals_cursors_and_channels() -> None:
    lines = drawn(ONE, width=120)
    text = "\n".join(lines)
    assert lines[0] == "aqueduct top till  ● live  12:00:00"
    assert "messages/s 50" in lines[1]
    assert "behind 500, 1.5 s" in lines[1]
    assert "spool 97.7 KiB of 977 KiB 10%" in lines[2]
    assert "most 50/s" in lines[3]
    assert "orders  messages     500" in text
    assert "● reads" in text
    assert "channels: 2 of 2, by rate" in text
    assert "till-1" in text
    assert r"<script>alert(1)</script>\u202e" in text
    assert "\u202e" not in text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 16), (200, 60)])
@pytest.mark.parametrize("peers", [False, True])
def test_a_screen_is_not_larger_than_its_terminal(width: int, height: int, peers: bool) -> None:
    lines = drawn(ONE, MANY, GONE, view=TopView(peers=peers), width=width, height=height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "◐ 2 of 3 answer" in text
    assert "! many: the spool is full" in text
    assert "! [AQUEDUCT_INTAKE.UNREACHABLE] it is gone" in text
    assert "q quit" in lines[-1]
    if not peers:
        assert "of 10,002, by rate" in text


def test_without_a_height_all_is_there() -> None:
    lines = drawn(MANY)
    assert sum("channel-" in line for line in lines) == 200
    assert "q quit" not in lines[-1]


def test_channels_of_several_intakes_are_in_one_order() -> None:
    lines = drawn(ONE, MANY, view=TopView(order="messages"))
    first = next(line for line in lines if line.startswith("orders") and "reads" not in line)
    assert first.split()[2] == "900"
    quiet = drawn(ONE, view=TopView(order="name", search="ord", typing=True), height=24)
    assert quiet[-1].startswith("search: ord▏")
    assert "by name, with 'ord'" in "\n".join(quiet)


@pytest.mark.parametrize("width", [80, 100, 160])
def test_numbers_are_never_cut(width: int) -> None:
    for view in (TopView(), TopView(peers=True)):
        rows = drawn(ONE, MANY, view=view, width=width)
        begin = next(at for at, line in enumerate(rows) if line.startswith(("channels:", "connec")))
        titles = rows[begin + 1].split()
        assert "…" not in rows[begin + 1]
        assert {"msg/s", "messages", "bytes", "quiet"} <= set(titles)
        for line in rows[begin + 2 :]:
            assert "…" not in line[len(line) // 2 :]


def test_where_no_intake_answers_there_are_no_figures() -> None:
    lines = drawn(GONE, width=120, height=24)
    assert lines[0].startswith("aqueduct top spool/intake-2  ◐ 0 of 1 answer")
    assert lines[1] == "! [AQUEDUCT_INTAKE.UNREACHABLE] it is gone"
    assert lines[2].startswith("q quit")
    assert len(lines) == 3


@pytest.mark.parametrize("peers", [False, True])
def test_of_several_intakes_each_row_says_which(peers: bool) -> None:
    lines = [line.rstrip() for line in drawn(ONE, MANY, view=TopView(peers=peers), width=160)]
    assert any(line.endswith("  intake") for line in lines)
    assert {line.split()[-1] for line in lines if " s-1 " in line or "127.0.0.1:5000" in line} == (
        {"till", "many"} if peers else {"till"}
    )
    assert not any("intake" in line for line in drawn(ONE, view=TopView(peers=peers), width=160))


def test_connections_have_the_order_of_the_view() -> None:
    peers = tuple(
        PeerStatus(f"s-{n}", f"10.0.0.{n}:5000", quiet=n, rate=-n, bytes=n % 2) for n in (1, 2, 3)
    )
    both = [
        ObservedIntake(f"{n}", status(activity=activity(peers=peers[n : n + 2]))) for n in (0, 1)
    ]
    for order, first in (("quiet", "10.0.0.3"), ("name", "10.0.0.1"), ("bytes", "10.0.0.1")):
        view = TopView(order=order, peers=True)  # type: ignore[arg-type]
        lines = drawn(*both, view=view)
        begin = next(at for at, line in enumerate(lines) if line.startswith("connections: "))
        assert lines[begin].endswith(f"by {'rate' if order == 'name' else order}")
        assert lines[begin + 2].startswith(first), order


def test_without_a_query_it_says_how_much_was_not_read() -> None:
    text = "\n".join(drawn(ObservedIntake("spool", status(lag=()))))
    assert "not read 100, 1.5 s" in text
    assert "behind" not in text


@pytest.mark.parametrize("width", [60, 80, 200, 400])
@pytest.mark.parametrize("many", [1, 2, 7, 150, 301])
def test_the_line_of_ten_minutes_ends_now(width: int, many: int) -> None:
    samples = tuple(HistorySample(2.0 * n, 100 * n, 0, 0, 0, 0, 0, 1, 1) for n in range(many))
    line = drawn(ObservedIntake("spool", status(activity=activity(history=samples))), width=width)[
        3
    ]
    bars = line.removeprefix("10 min ").partition(" most ")[0]
    assert width / 2 - 30 < len(bars) <= 300
    assert bars.strip() == "█" * min(len(bars), -(-(many - 1) * len(bars) // 300))
    assert bars.endswith("█") is (many > 1)


def test_a_tree_is_indented() -> None:
    lines = drawn(ONE, view=TopView(order="tree"))
    assert any(line.startswith("  <script>") for line in lines)


def test_nothing_is_said_to_be_nothing() -> None:
    empty = ObservedIntake("spool", status(activity=None, lag=(), use=None, oldest=None))
    text = "\n".join(drawn(empty))
    assert "no query has read from here yet" in text
    assert "channels: 0 of 0" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.05, "0.05"), (7.26, "7.3"), (99.9, "100"), (950, "950"), (9_999, "9999"),
     (12_345, "12.3k"), (812_345, "812k"), (4_200_000, "4.2M"), (3.1e9, "3.1G")],
)  # fmt: skip
def test_numbers_are_short(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (1_023, "1023 B"), (1_536, "1.5 KiB"), (150 << 20, "150 MiB"), (5 << 40, "5 TiB")],
)
def test_sizes_have_binary_units(value: float, text: str) -> None:
    assert size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0214, "21 ms"), (8.43, "8.43 s"), (75, "1m15s"), (3_725, "1h02m"), (90_061, "1d01h")],
)
def test_spans_have_their_largest_units(value: float, text: str) -> None:
    assert span(value) == text
