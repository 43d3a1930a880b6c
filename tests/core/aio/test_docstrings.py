"""Examples in docstrings of the asyncio API run, as they stand, against a server that reads all."""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core import aio
from aqueduct_core.aio.halves import Receiver
from aqueduct_core.aio.outcomes import Cancelled, ConnectionLost
from tests.support.event_loop import client_tls, in_loop, server_tls

URL = "aqueduct://host:4433"
"""Where the server of every example listens."""


def examples() -> Iterator[tuple[str, list[str]]]:
    """The name of each docstring that has examples, and these in order."""
    for path in sorted(Path(aio.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found = list(indented(ast.get_docstring(node) or ""))
                if any("await " in block for block in found):
                    yield f"{path.stem}:{getattr(node, 'name', '')}".rstrip(":"), found


def indented(text: str) -> Iterator[str]:
    """The blocks that stand apart, four blanks to the right."""
    for part in text.split("\n\n"):
        lines = part.splitlines()
        if lines and all(line.startswith("    ") for line in lines):
            yield inspect.cleandoc("\n" + part)


EXAMPLES = dict(examples())


def test_the_main_ways_have_an_example() -> None:
    assert {"__init__", "halves", "producer"} <= EXAMPLES.keys()


@pytest.mark.parametrize("where", EXAMPLES)
@in_loop
async def test_examples_run(where: str) -> None:
    async with aio.serve("127.0.0.1", 0, tls=server_tls()) as server:
        reading = asyncio.ensure_future(read_all(server))
        async with aio.connect(server.url, tls=client_tls()) as connection:
            names: dict[str, Any] = {name: getattr(aio, name) for name in aio.__all__}
            names["connection"] = connection
            names["connect"] = partial(aio.connect, tls=client_tls())
            names["Producer"] = partial(aio.Producer, tls=client_tls())
            for example in EXAMPLES[where]:
                source = example.replace(URL, server.url)
                code = compile(source, where, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                if (done := eval(code, names)) is not None:
                    await done
            # Halves that the examples leave open are given up here.
            names.clear()
        reading.cancel()
        await asyncio.wait([reading])


async def read_all(server: aio.Server) -> None:
    """Read every channel that comes, and say nothing on those that are to be written."""
    async with asyncio.TaskGroup() as tasks:

        async def read(receiver: Receiver) -> None:
            try:
                async for message in receiver:
                    for half in message.attachments:
                        tasks.create_task(
                            read(half) if isinstance(half, Receiver) else say_no(half)
                        )
            except (ConnectionLost, Cancelled):
                pass

        async for connection in server:
            tasks.create_task(read(connection.entrypoint))


async def say_no(sender: Any) -> None:
    try:
        await sender.finish()
    except ConnectionLost:
        pass
