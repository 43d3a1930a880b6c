"""How benches pair, meter and load."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from socket import AF_INET, SO_RCVBUF, SOCK_DGRAM, SOL_SOCKET, socket

import pytest

from tests.bench import run
from tests.bench.against import NoCheckout, borrowed, over
from tests.bench.goals import AGAINST
from tests.bench.intakes import intake_process
from tests.bench.loads import (
    DIFFERENT,
    KINDS,
    LARGEST,
    MIXED,
    SMALLEST,
    Load,
    load_for,
    payloads,
    send_from_elsewhere,
)
from tests.bench.measuring import (
    Bench,
    CpuMeter,
    Effort,
    dropped,
    dropped_at,
    in_turns,
    percentile,
    ratios,
)
from tests.bench.sheet import Figure, Sheet, read_sheets
from tests.support.repository import ROOT


def recording(log: list[str], name: str) -> Callable[[], float]:
    def act() -> float:
        log.append(name)
        return float(len(log))

    return act


def test_reference_and_candidates_change_places_from_one_repetition_to_the_next() -> None:
    log: list[str] = []
    kinds = {name: recording(log, name) for name in ("stock", "ours", "rows")}
    sheet = Sheet("pairs", "")
    runs = list(in_turns(kinds, Effort(3, 0.0), sheet))
    forth = ["stock", "ours", "rows"]
    assert log == [*forth, *reversed(forth), *forth]
    assert [list(each) for each in runs] == [forth] * 3
    assert runs[1] == {"rows": 4.0, "ours": 5.0, "stock": 6.0}
    assert len(sheet.calibration) == 3


def test_a_ratio_is_one_of_neighbours_and_none_of_medians() -> None:
    runs = [{"stock": 1.0, "ours": 3.0}, {"stock": 10.0, "ours": 20.0}, {"stock": 2.0, "ours": 8.0}]
    assert ratios(runs, "ours", "stock", lambda value: value) == [3.0, 2.0, 4.0]


def test_what_a_started_process_uses_is_counted_and_what_was_used_before_is_not() -> None:
    burn = "import time\nwhile time.process_time() < 0.1: pass\nprint('x', flush=True)\ninput()"
    process = subprocess.Popen(
        [sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    meter = CpuMeter(os.getpid())  # with the child, which has used something or will
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        later = CpuMeter(os.getpid())
        assert CpuMeter(process.pid).used() < 0.1
        meter.look()
        process.communicate("\n")
    assert meter.used() >= 0.05  # the child is gone, what it used by the look is not forgotten
    assert later.used() < meter.used()


def test_dropped_datagrams_are_those_of_the_port_and_of_both_families(tmp_path: Path) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
    row = "  1: {}:1151 0:0 07 00000000:00000000 00:00000000 00000000 0 0 1 2 0 {}\n"
    other = "  2: 0100007F:1152 0:0 07 00000000:00000000 00:00000000 00000000 0 0 1 2 0 99\n"
    four, six = tmp_path / "udp", tmp_path / "udp6"
    four.write_text(head + row.format("0100007F", 7) + other)
    six.write_text(head + row.format("0" * 32, 3))
    assert dropped(0x1151, [four, six, tmp_path / "none"]) == 10
    assert dropped(1, [four, six]) == 0


def test_dropped_datagrams_are_those_of_a_process_too() -> None:
    before = dropped_at(os.getpid())
    sent, received = 400, 0
    with socket(AF_INET, SOCK_DGRAM) as narrow, socket(AF_INET, SOCK_DGRAM) as sender:
        narrow.setsockopt(SOL_SOCKET, SO_RCVBUF, 4_096)
        narrow.bind(("127.0.0.1", 0))
        for _ in range(sent):
            sender.sendto(bytes(1_000), narrow.getsockname())
        while select.select([narrow], [], [], 0)[0]:
            narrow.recv(2_000)
            received += 1
        assert 0 < received < sent
        assert dropped_at(os.getpid()) - before == sent - received
        assert dropped(narrow.getsockname()[1]) == sent - received


@pytest.mark.parametrize(
    ("percent", "value"), [(0, 1.0), (50, 5.0), (90, 9.0), (99, 10.0), (100, 10.0)]
)
def test_a_percentile_is_a_value_that_was_measured(percent: float, value: float) -> None:
    assert percentile([float(n) for n in range(10, 0, -1)], percent) == value


@pytest.mark.parametrize("kind", KINDS)
def test_a_load_says_what_its_bulks_hold(kind: str) -> None:
    load = Load(kind, 5_000 if kind != "65536" else 50)
    sent = [payload for bulk in load.bulks() for payload in bulk]
    assert len(sent) == load.count
    assert sum(map(len, sent)) == load.total
    assert load_for(kind, 2.0).total == pytest.approx(2 * load_for(kind, 1.0).total, rel=0.1)


def test_mixed_loads_are_the_same_for_all_and_of_every_order_of_magnitude() -> None:
    sizes = [len(payload) for payload in payloads(MIXED)]
    assert len(sizes) == DIFFERENT
    assert SMALLEST <= min(sizes) <= max(sizes) <= LARGEST
    for low, high in ((20, 200), (200, 2_000), (2_000, 20_000)):
        assert 0.25 < sum(low <= size < high for size in sizes) / DIFFERENT < 0.4
    payloads.cache_clear()
    assert [len(payload) for payload in payloads(MIXED)] == sizes


def test_a_sender_of_another_process_tells_when_it_began(tmp_path: Path) -> None:
    """So that nothing of its end is taken off the time until the last row."""
    with intake_process(tmp_path) as running:
        before = time.monotonic()
        sent = send_from_elsewhere(running.endpoint, Load("1000", 50))
        assert before < sent.begun < sent.begun + sent.wall < time.monotonic()


def test_a_bench_measures_as_its_command_line_says_and_keeps_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Effort] = []

    def measure(effort: Effort, sheet: Sheet) -> None:
        seen.append(effort)
        sheet.add("ours over stock", "x", [2.0] * effort.repetitions, "G1")

    bench = Bench("some", "some title", measure, seconds=9.0)
    words = ["--repetitions", "3", "--kinds", "mixed", "--out", str(tmp_path)]
    assert bench.main(words) == 1  # below its goal
    assert seen == [Effort(3, 9.0, ("mixed",))]
    assert "missed" in capsys.readouterr().out
    assert read_sheets(tmp_path)[0].figures == [Figure("ours over stock", "x", (2.0,) * 3, "G1")]
    assert [path.name for path in tmp_path.iterdir()] == ["some.mixed.json"]
    with pytest.raises(SystemExit):
        bench.main(["--kinds", "huge"])


def test_a_run_that_fails_leaves_no_figures_of_an_earlier_one(tmp_path: Path) -> None:
    def fail(effort: Effort, sheet: Sheet) -> None:
        raise RuntimeError("the query was stopped")

    words = ["--out", str(tmp_path)]
    for name in ("some", "something"):
        bench = Bench(name, "", lambda effort, sheet: None)
        bench.main(words)
        bench.main([*words, "--kinds", "100"])
    with pytest.raises(RuntimeError):
        Bench("some", "", fail).main([*words, "--kinds", "100"])
    left = ["some.json", "something.100.json", "something.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left
    with pytest.raises(RuntimeError):
        Bench("something", "", fail).main(words)
    assert [path.name for path in tmp_path.iterdir()] == ["some.json"]


def test_another_checkout_lends_its_product_to_our_benches(tmp_path: Path) -> None:
    other = tmp_path / "other"
    package = other / "aqueduct_core"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("WHO = 'the other'\n")
    with borrowed(other) as checkout:
        says = "import aqueduct_core as a, tests.support.repository as r; print(a.WHO, r.ROOT)"
        done = subprocess.run(
            [sys.executable, "-c", says],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == ["the", "other", str(checkout)]
    assert not checkout.exists()
    with pytest.raises(NoCheckout), borrowed(tmp_path):
        pass


def test_against_another_checkout_each_pair_is_a_ratio() -> None:
    def side(**figures: float) -> dict[str, Figure]:
        return {name: Figure(name, "µs", (value,)) for name, value in figures.items()}

    pairs = [
        (side(cost=2.0, new=1.0, drops=1.0), side(cost=4.0, drops=0.0)),
        (side(cost=9.0, drops=1.0), side(cost=3.0, drops=1.0)),
    ]
    assert list(over(pairs)) == [Figure("cost (µs)", "x", (0.5, 3.0))]


def test_against_the_version_before_a_figure_may_have_a_goal() -> None:
    [(name, goal)] = AGAINST.items()
    side = {name: Figure(name, "µs", (1.0,))}
    assert [figure.goal for figure in over([(side, side)])] == [goal]


def test_only_names_benches_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["--only", "transport,nothing"])
    assert "no bench is called nothing" in capsys.readouterr().err
    assert run.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in run.BENCHES)
    for name in (*run.BENCHES, *run.WITH_KAFKA):
        assert (ROOT / "tests" / "bench" / f"{name}.py").exists()
