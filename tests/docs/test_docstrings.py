"""Code in docstrings runs as it stands there; only the address and the trust are a test's own."""

from __future__ import annotations

import ast
import asyncio
import re
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

import aqueduct
from aqueduct import quicr, telehash
from aqueduct_core.aqueduct.conventions import dedupe
from tests.support.event_loop import client_tls, in_loop, server_tls
from tests.support.source_tree import product

RUN = {
    "aqueduct": "client",
    "aqueduct.quicr": "media",
    "aqueduct.telehash": "packets",
    "aqueduct_core.aio.producer": "client",
    "aqueduct_core.aio.halves": "connected",
    "aqueduct_core.aqueduct.conventions.dedupe": "receiving",
}
"""Each docstring with code, and what is there before it."""


def examples(docstring: str) -> Iterator[str]:
    """Indented parts that are Python with a call in it."""
    for block in re.findall(r"(?:^    .*\n?(?:^\s*\n)?)+", docstring, re.MULTILINE):
        code = textwrap.dedent(block)
        try:
            tree = ast.parse(code)
        except SyntaxError:
            continue
        if any(isinstance(node, ast.Call) for node in ast.walk(tree)):
            yield code


def docstrings() -> Iterator[tuple[str, str]]:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for module in product().modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, kinds) and (text := ast.get_docstring(node, clean=False)):
                margin = " " * node.body[0].col_offset
                yield module.name, re.sub(f"^{margin}", "", text, flags=re.MULTILINE)


def test_every_docstring_with_code_is_run_here() -> None:
    assert {name for name, text in docstrings() if list(examples(text))} == set(RUN)


@asynccontextmanager
async def reading_server() -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that reads every channel it gets, to its end; its URL, and what it has read."""
    seen: list[bytes] = []

    async def read(receiver: aqueduct.Receiver) -> None:
        async for message in receiver:
            seen.append(bytes(message.payload))
            await asyncio.gather(*(read(each) for each in message.attachments if is_receiver(each)))

    async def serve_all(server: aqueduct.Server) -> None:
        async with asyncio.TaskGroup() as group:
            async for connection in server:
                group.create_task(read(connection.entrypoint))

    def is_receiver(half: object) -> bool:
        return isinstance(half, aqueduct.Receiver)

    async with aqueduct.serve("127.0.0.1", 0, tls=server_tls()) as server:
        serving = asyncio.create_task(serve_all(server))
        yield server.url, seen
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def run(code: str, names: dict[str, Any]) -> None:
    body = textwrap.indent(code, "    ")
    exec(compile(f"async def example():\n{body}", "docstring", "exec"), names)
    await names["example"]()


def code_of(name: str) -> list[str]:
    return [code for module, text in docstrings() if module == name for code in examples(text)]


@pytest.mark.parametrize("name", [name for name, before in RUN.items() if before == "client"])
@in_loop
async def test_clients_of_a_server(name: str) -> None:
    async with reading_server() as (url, seen):
        for code in code_of(name):
            names = {
                "connect": partial(aqueduct.connect, tls=client_tls()),
                "Producer": partial(aqueduct.Producer, tls=client_tls()),
                "channel": aqueduct.channel,
            }
            await run(code.replace("aqueduct://host:4433", url), names)
    assert seen


@in_loop
async def test_media_go_to_an_origin_and_back() -> None:
    read: list[tuple[object, ...]] = []
    async with quicr.serve_origin("127.0.0.1", 0, tls=server_tls()) as origin:
        for code in code_of("aqueduct.quicr"):
            names = {
                "connect": partial(quicr.connect, tls=client_tls()),
                "print": lambda *values: read.append(values),
            }
            await run(code.replace("quicr://host:4433", origin.url), names)
    assert read == [(0, 0, b"first")]


@in_loop
async def test_packets_go_over_a_channel() -> None:
    for code in code_of("aqueduct.telehash"):
        names = {
            "listen": telehash.listen,
            "open": telehash.open,
            "certificate": server_tls(),
            "trust": client_tls(),
            "got": [],
        }
        await run(code, names)
        assert names["got"] == [(b"hi", None), (b"how are you?", {"custom": "values"})]


@in_loop
async def test_halves_become_networked() -> None:
    [code] = ["".join(code_of("aqueduct_core.aio.halves"))]
    async with (
        reading_server() as (url, seen),
        aqueduct.connect(url, tls=client_tls()) as connection,
    ):
        await run(code, {"connection": connection, "channel": aqueduct.channel})
    assert seen == [b"subscribe"]


@in_loop
async def test_what_was_seen_is_not_stored_again() -> None:
    [code] = code_of("aqueduct_core.aqueduct.conventions.dedupe")
    stored: list[Any] = []
    message = SimpleNamespace(num=0, headers=())

    async def receiver() -> AsyncIterator[Any]:
        for each in (message, message):
            yield each

    receiving = receiver()
    names = {
        **{name: getattr(dedupe, name) for name in dedupe.__all__},
        "connection": SimpleNamespace(headers=((b"producer", b"p"),)),
        "receiver": _WithHeaders(receiving, ((b"name", b"c"), (b"sequence-start", b"0"))),
        "store": stored.append,
    }
    await run(code, names)
    assert stored == [message]


class _WithHeaders:
    def __init__(self, messages: AsyncIterator[Any], headers: Any) -> None:
        self._messages = messages
        self.headers = headers

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._messages
