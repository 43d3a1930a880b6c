"""docs/library.md: its blocks run, its table is what tests show; and the reference is whole."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import aqueduct
from aqueduct import quicr, telehash, testing
from aqueduct.testing import Network, RecordingServer
from tests.core.aio.storing import Store
from tests.core.aio.test_ends import CONNECTIONS, HALVES, Ends
from tests.support.event_loop import in_loop
from tests.support.repository import ROOT
from tests.support.virtual_loop import let_happen
from tests.support.waiting import LONG, environment

PAGE = (ROOT / "docs" / "library.md").read_text("utf-8")
REFERENCE = (ROOT / "docs" / "reference.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def defined() -> dict[str, Any]:
    """What the blocks behind the first one define; that is a program of its own."""
    names: dict[str, Any] = {"aqueduct": aqueduct, "asyncio": asyncio}
    for code in BLOCKS[1:]:
        exec(compile(code, "docs/library.md", "exec"), names)
    return names


NAMES = defined()


def test_the_first_program_runs(tmp_path: Path) -> None:
    with RecordingServer(tmp_path) as server:
        (tmp_path / "tls").mkdir()
        server.ca_file.rename(tmp_path / "tls" / "ca.pem")
        code = BLOCKS[0].replace("aqueduct://127.0.0.1:4433", server.url)
        assert server.url in code
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=LONG,
            check=True,
        )
        assert done.stdout == "1 acked\n"
        [message] = [each for each in server.received if each.channel == "greetings"]
        assert (message.payload, message.header("lang")) == (b"hello", b"en")


@in_loop
async def test_what_is_served_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """The orders of one block, read by the server of another one."""
    network, got = Network(), []
    async with network.serve() as server:

        async def read() -> None:
            async with asyncio.TaskGroup() as tasks:
                async for connection in server:
                    tasks.create_task(
                        NAMES["read"](connection.entrypoint, lambda *each: got.append(each), tasks)
                    )

        reading = asyncio.ensure_future(read())
        async with network.connect(server.url) as connection:
            await NAMES["order_book"](connection, {"ann": ["1 pear", "2 figs"], "bo": ["1 fig"]})
            await NAMES["careful"](connection.entrypoint)
        await let_happen()
        await server.close()
        await reading
    assert [payload for name, payload in got if name == "orders"] == [b"ann", b"bo"]
    assert [payload for name, payload in got if name == "ann"] == [b"1 pear", b"2 figs"]
    assert (None, b"hello") in got
    assert capsys.readouterr().out == ""


@in_loop
async def test_the_server_of_the_page_listens() -> None:
    """On its port, which is replaced by a free one."""
    served: list[Any] = []

    def serve(host: str, port: int, **options: Any) -> Any:
        assert (host, port) == ("127.0.0.1", 4433)
        opening = aqueduct.serve(host, 0, **options)
        served.append(opening)
        return opening

    tls = aqueduct.ServerTls.self_signed()
    names = NAMES | {"aqueduct": type("aqueduct", (), vars(aqueduct) | {"serve": serve})}
    code = next(each for each in BLOCKS if "async def serve(" in each).replace(
        "import aqueduct\n", ""
    )
    exec(code, names)
    got: list[Any] = []
    serving = asyncio.ensure_future(names["serve"](tls, lambda *each: got.append(each)))
    await let_happen()
    server = served[0]._opened
    async with aqueduct.connect(
        server.url, tls=aqueduct.ClientTls(ca_pem=tls.cert_pem)
    ) as connection:
        await connection.entrypoint.send_and_wait(b"hello")
    await server.close()
    await serving
    assert got == [(None, b"hello")]


@in_loop
async def test_questions_are_answered() -> None:
    network = Network(delay=0.01)
    async with network.serve() as server, network.connect(server.url) as connection:
        answering = asyncio.ensure_future(NAMES["answer"]((await server.accept()).entrypoint))
        assert await NAMES["ask"](connection.entrypoint, b"why") == b"you asked why"
        await connection.entrypoint.finish()
        await answering


@in_loop
async def test_the_producer_produces(monkeypatch: pytest.MonkeyPatch) -> None:
    network, store = Network(), Store()
    made: list[aqueduct.Producer] = []

    def producer(url: str, *, producer: str, tls: object) -> aqueduct.Producer:
        assert (producer, tls) == ("sensor-7", None)
        made.append(aqueduct.Producer(url, producer="p-1", dialer=network.dial))
        return made[0]

    monkeypatch.setitem(NAMES, "Producer", producer)
    async with network.serve() as server:
        taking = asyncio.ensure_future(store.take(server))
        await NAMES["produce"](server.url, None)
    await taking
    await store.end()
    assert store.payloads("readings") == [b"21.5", b"21.6"]
    assert made[0].statistics.acked == 2


@in_loop
async def test_a_timeout_tells_what_was_sent(capsys: pytest.CaptureFixture[str]) -> None:
    sender, receiver = aqueduct.channel()
    await sender.send(bytes(4 << 20))  # the queue is full
    assert await NAMES["in_time"](sender, b"late") is None
    assert capsys.readouterr().out == "the message for a local channel was not sent\n"
    del receiver


def test_the_table_of_ends_is_what_the_tests_of_ends_show() -> None:
    words = {"acked", "nacked", "unknown"}
    shown: dict[str, str] = {}
    for row in re.findall(r"^\| (.+?) \| (\w+) \|.*\|$", PAGE, re.MULTILINE):
        if row[1] in words:
            shown |= dict.fromkeys(re.findall(r"`([\w.]+)`", row[0]), row[1])
            shown[row[0]] = row[1]
    cases: dict[str, Ends] = {name: ends for name, (_, ends) in {**HALVES, **CONNECTIONS}.items()}
    for name, ends in cases.items():
        verb, _, side = name.partition(" ")
        row = name if "." in name else f"`{verb}` of the connection, {side}"
        row = row if verb != "cancel" else "`cancel` of the connection, by any side"
        assert shown[row] == ends.under_way, name


def test_every_name_is_on_the_page_of_the_reference() -> None:
    named: dict[str, list[str]] = {}
    line = r"^\.\. (currentmodule|auto(?:class|function)):: ([\w.]+)$"
    for kind, name in re.findall(line, REFERENCE, re.MULTILINE):
        if kind == "currentmodule":
            names = named.setdefault(name, [])
        else:
            names.append(name)
    assert all(len(names) == len({*names}) for names in named.values())
    for module in (aqueduct, quicr, telehash, testing):
        assert {*module.__all__} <= {*named[module.__name__]}
    assert {*named} == {
        *("aqueduct", "aqueduct.quicr", "aqueduct.telehash", "aqueduct.testing"),
        *("aqueduct.testing.spools", "aqueduct.testing.fixtures"),
    }
