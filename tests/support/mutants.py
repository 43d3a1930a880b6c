"""Small changes of the engine, one at a time, and which of them no test notices (``make mutants``).

``python -m tests.support.mutants [-v] [-r] [-s SECONDS] MODULE…`` takes modules of the engine by
name, '*' for all. mutmut makes the mutants; here one process collects the tests and measures once
which functions each of them calls, and every mutant gets a fork of it with the mutant's code in the
function's place. Its tests run until one fails, those first that are likely to. That takes a
hundredth of the time of a pytest for each of them. Results are kept with mutmut's own (``mutmut
results``, ``mutmut show NAME``): what was tried is not tried again, but with ``-r`` what survived.

A test may take ten times its time and some seconds more; what takes longer counts as killed, too.
Mutants that change nothing but the text of an error are left out, and with ``-s SECONDS`` tests
that take longer.
"""

from __future__ import annotations

import argparse
import ast
import gc
import hashlib
import io
import json
import os
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from contextlib import redirect_stdout
from fnmatch import fnmatch
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NoReturn

import pytest
from hypothesis import Phase, settings

COPY = Path("mutants")
"""mutmut's working copy; the tests run with it as the current directory."""
SURVIVED, KILLED, NO_TESTS, SKIPPED, SUSPICIOUS, TIMEOUT = 0, 1, 33, 34, 35, 36
NAMES = {
    SURVIVED: "survived",
    KILLED: "killed",
    NO_TESTS: "no tests",
    SKIPPED: "text",
    SUSPICIOUS: "not tried",
    TIMEOUT: "timeout",
}
WANTED = "MUTANTS_WANTED"
MEMORY = 2 << 30
LONGEST = 1e9


def main(arguments: list[str]) -> int:
    from mutmut import __main__ as mutmut

    parser = argparse.ArgumentParser(prog="python -m tests.support.mutants")
    parser.add_argument("-v", action="store_true", help="print each mutant with its result")
    parser.add_argument("-s", type=float, default=LONGEST, help="leave out tests that take longer")
    parser.add_argument("-r", action="store_true", help="try what has survived once more")
    parser.add_argument("modules", nargs="+")
    wanted = parser.parse_args(arguments)
    mutmut.set_mutant_under_test("mutant_generation")
    COPY.mkdir(exist_ok=True)
    mutmut.load_stats()
    with redirect_stdout(io.StringIO()):
        mutmut.copy_src_dir()
        mutmut.copy_also_copy_files()
        mutmut.create_mutants(1)
    selection = mutmut.config().pytest_add_cli_args_test_selection
    options = mutmut.config().pytest_add_cli_args
    os.environ[WANTED] = json.dumps([wanted.v, wanted.r, wanted.s, wanted.modules])
    os.environ["MUTANT_UNDER_TEST"] = ""
    os.chdir(COPY)
    plugin = ["-p", "tests.support.mutants", "-p", "no:random-order", "--timeout=120"]
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *plugin, *options, *selection])


originals: dict[int, tuple[dict[str, FunctionType], FunctionType]] = {}
"""The mutants of each function that has some, by the identity of their table."""


def pytest_configure() -> None:
    """Functions are called directly and not by way of mutmut's switch."""
    from mutmut.mutation import trampoline

    def wrap(table: dict[str, FunctionType], is_classmethod: bool = False) -> Any:
        def keep(function: FunctionType) -> FunctionType:
            originals[id(table)] = table, function
            return function

        return keep

    trampoline.wrap_in_trampoline = wrap
    # a failure is a failure: no search for its smallest example, and none kept for the next mutant
    phases = [Phase.explicit, Phase.generate]
    settings.register_profile("mutants", database=None, phases=phases, report_multiple_bugs=False)
    settings.load_profile("mutants")


def pytest_runtestloop(session: pytest.Session) -> bool:
    verbose, again, longest, modules = json.loads(os.environ[WANTED])
    functions = {name(table): (table, function) for table, function in originals.values()}
    codes = {function.__code__: key for key, (_, function) in functions.items()}
    calls = measure(session, codes)
    items = {item.nodeid: item for item in session.items}
    tests: dict[str, list[tuple[float, str]]] = {key: [] for key in functions}
    for test, (seconds, called) in calls.items():
        if test in items and seconds <= longest:
            for key in called:
                if key in tests:
                    tests[key].append((seconds, test))
    gc.freeze()  # what is shared with forks is not touched by their collections
    total: Counter[str] = Counter()
    survivors = []
    killers: dict[str, Counter[str]] = defaultdict(Counter)
    start = time.monotonic()
    for module in modules:
        for path in sorted(Path("aqueduct_core").glob("*/*.py.meta")):
            if not fnmatch(path.name, module + ".py.meta"):
                continue
            meta = json.loads(path.read_text())
            results = meta["exit_code_by_key"]
            for mutant, known in results.items():
                if known not in NAMES or (again and known not in (KILLED, TIMEOUT, SKIPPED)):
                    key = mutant[: mutant.rindex("__mutmut_")]
                    if key in functions:
                        promise = partial(_promise, module_of(key), killers[key])
                        plan = sorted(tests[key], key=promise)
                        known, killer = trial(functions[key], mutant, plan, items)
                    else:  # no test imports its module
                        known, killer = NO_TESTS, ""
                    if killer:
                        killers[key][killer] += 1
                    results[mutant] = known
                    meta["durations_by_key"][mutant] = 0.0
                    path.write_text(json.dumps(meta, indent=4))
                    if verbose:
                        print(NAMES[known], mutant, killer, flush=True)
                total[NAMES[known]] += 1
                if known not in (KILLED, TIMEOUT, SKIPPED):
                    survivors.append(f"{NAMES[known]}: {mutant}")
            print(f"{path}: {Counter(NAMES[result] for result in results.values())}", flush=True)
    print(*survivors, sep="\n")
    print(f"{dict(total)} in {time.monotonic() - start:.0f} s")
    return True


def module_of(key: str) -> str:
    return key.rpartition(".")[0].rpartition(".")[2]


def _promise(
    module: str, killers: Counter[str], test: tuple[float, str]
) -> tuple[int, bool, float]:
    """What comes first: those that killed others of the function, the module's own, quick ones."""
    seconds, name = test
    return -killers[name], f"/test_{module}." not in name, seconds


def name(table: dict[str, FunctionType]) -> str:
    """The name of a function as mutmut has it in those of its mutants."""
    original = table["_mutmut_orig"]
    return f"{original.__module__}.{original.__name__.removesuffix('__mutmut_orig')}"


def measure(session: pytest.Session, codes: dict[CodeType, str]) -> dict[str, Any]:
    """How long each test takes, and which functions it calls; kept for files as they are."""
    sources = b"".join(path.read_bytes() for path in sorted(Path("aqueduct_core").rglob("*.py")))
    kept_at = Path("calls.json")
    kept = json.loads(kept_at.read_text()) if kept_at.exists() else {}
    calls: dict[str, Any] = {}
    for item in session.items:
        content = hashlib.sha256(sources + item.path.read_bytes()).hexdigest()
        found = kept.get(item.nodeid)
        if not found or found[0] != content:
            seen: set[CodeType] = set()

            def called(frame: FrameType, event: str, _: object, seen: set[CodeType] = seen) -> None:
                if event == "call":
                    seen.add(frame.f_code)

            sys.setprofile(called)
            start = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            seconds = time.process_time() - start
            sys.setprofile(None)
            if session.testsfailed:
                raise session.Failed(f"{item.nodeid} fails without any mutant")
            found = [content, seconds, sorted(codes[code] for code in seen & codes.keys())]
        calls[item.nodeid] = found
    kept_at.write_text(json.dumps(calls))
    return {test: (seconds, called) for test, (_, seconds, called) in calls.items()}


def trial(
    mutated: tuple[dict[str, FunctionType], FunctionType],
    mutant: str,
    plan: list[tuple[float, str]],
    items: dict[str, pytest.Item],
) -> tuple[int, str]:
    """What the tests say to one mutant, in a process of its own, and which of them killed it."""
    table, function = mutated
    changed = table[mutant.rpartition(".")[2]]
    if is_text(mutant):
        return SKIPPED, ""
    if not plan:
        return NO_TESTS, ""
    if changed.__code__.co_freevars != function.__code__.co_freevars:
        return SUSPICIOUS, ""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _try(function, changed, plan, items, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        begun = pipe.read().decode().splitlines()
    _, status = os.waitpid(child, 0)
    known = TIMEOUT if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)
    return known, begun[-1] if begun and known else ""


def _try(
    function: FunctionType,
    changed: FunctionType,
    plan: list[tuple[float, str]],
    items: dict[str, pytest.Item],
    writing: int,
) -> NoReturn:
    """In the child: the tests until one fails; the name of each goes to ``writing`` first."""
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nowhere, descriptor)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        function.__code__ = changed.__code__
        function.__defaults__ = changed.__defaults__
        function.__kwdefaults__ = changed.__kwdefaults__
        plugins = items[plan[0][1]].config.pluginmanager
        plugins.unregister(name="terminalreporter")
        for seconds, test in plan:
            os.write(writing, f"{test}\n".encode())
            signal.setitimer(signal.ITIMER_VIRTUAL, 3 + 10 * seconds)
            item = items[test]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if item.session.testsfailed:  # type: ignore[attr-defined]
                os._exit(KILLED)
        os._exit(SURVIVED)
    except BaseException:
        os._exit(KILLED)


class _Texts(ast.NodeTransformer):
    """Sentences become None; mutmut makes None of them, too, and others."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.Constant(None)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        sentence = isinstance(node.value, str) and " " in node.value
        return ast.Constant(None) if sentence else node


@cache
def bodies(module: str) -> dict[str, str]:
    """What each function and mutant of a module does, without its sentences."""
    tree = ast.parse(Path(*module.split(".")).with_suffix(".py").read_text("utf-8"))
    return {
        node.name: ast.dump(ast.Module([_Texts().visit(each) for each in node.body], []))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }


def is_text(mutant: str) -> bool:
    """Whether it changes sentences alone."""
    module, _, name = mutant.rpartition(".")
    found = bodies(module)
    return found[name] == found[name[: name.rindex("__mutmut_")] + "__mutmut_orig"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
