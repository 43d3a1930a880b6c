"""A reader who does what a page says, block by block, in a folder of their own.

Only two things are a test's own: ``/data/`` in a page is the reader's folder, and the ports 4400 to
4499 are free ones.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import STOP, Block
from tests.support.ports import free_port
from tests.support.processes import intakes_below
from tests.support.waiting import LONG, Output, ended, environment, send_signal

_PORT = re.compile(r"\b44\d\d\b")


class Walk:
    """``names`` are there for blocks of Python, which see those of the blocks before them.

    What a block prints to standard output is what a block of text behind it has to show.
    """

    def __init__(
        self,
        folder: Path,
        names: Mapping[str, Any] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.printed = ""
        self._names = dict(names or {})
        self._variables = with_this_python() if variables is None else dict(variables)
        self._ports: dict[str, str] = {}
        self._background: dict[str, tuple[subprocess.Popen[bytes], Output]] = {}

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, *exception: object) -> None:
        for command in reversed([*self._background]):
            self._stop(command, signal.SIGTERM)
        for pid in intakes_below(self.folder):
            send_signal(pid, signal.SIGTERM)
            ended(pid, LONG)

    def go(self, blocks: Iterable[Block]) -> int:
        """Raises AssertionError at the first block that is not as the page says; how many were."""
        count = 0
        for block in blocks:
            count += 1
            text = self.here(block.text)
            if block.file:
                path = self.folder / block.file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            elif block.language == STOP:
                self._stop(self._running(text), signal.SIGINT)
            elif block.language == "text" and block.shown_by:
                _, output = self._background[self._running(block.shown_by)]
                for line in filter(None, text.splitlines()):
                    output.wait_for(line, LONG)
            elif block.language == "text":
                shows(self.printed, text, block)
            elif block.language == "python":
                self._python(block, text)
            elif block.language == "sh":
                self._shell(block, text)
        return count

    def here(self, text: str) -> str:
        """What a page says, with this reader's folder and ports."""
        return _PORT.sub(self._port, text).replace("/data/", f"{self.folder}/")

    def _port(self, match: re.Match[str]) -> str:
        if match[0] not in self._ports:
            self._ports[match[0]] = str(free_port())
        return self._ports[match[0]]

    def _running(self, part: str) -> str:
        """The command that goes on running and has this in it."""
        [command] = [each for each in self._background if part in each]
        return command

    def _stop(self, command: str, number: signal.Signals) -> None:
        process, output = self._background.pop(command)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        process.wait(LONG)
        output.close()

    def _python(self, block: Block, text: str) -> None:
        printed = io.StringIO()
        code = compile("\n" * block.line + text, block.page, "exec")
        with contextlib.redirect_stdout(printed):
            if block.fails:
                with pytest.raises(Exception, match=re.escape(block.fails)) as caught:
                    exec(code, self._names)
                print(caught.value)
            else:
                exec(code, self._names)
        self.printed = printed.getvalue()

    def _shell(self, block: Block, text: str) -> None:
        command = ["bash", "-eo", "pipefail", "-c", text]
        if block.background:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            output = Output(process)
            self._background[text] = process, output
            self.printed = output.wait_for(block.background, LONG)
            return
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * LONG,
            check=False,
        )
        if block.fails:
            assert done.returncode, f"{block} did not fail"
            assert block.fails in done.stderr, f"{block} failed in another way: {done.stderr}"
        else:
            assert done.returncode == 0, f"{block}\n{text}\n{done.stdout}\n{done.stderr[-3000:]}"
        self.printed = done.stdout or done.stderr


def shows(printed: str, expected: str, block: Block) -> None:
    """Whether the lines of a block of text are among what was printed."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".*") + r"\n"
        for line in _lines(expected)
    )
    found = re.search(pattern, "".join(f"{line}\n" for line in _lines(printed)))
    assert found, f"{block} shows\n{expected}\nbut what was printed is\n{printed}"


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def with_this_python() -> dict[str, str]:
    """The environment of a reader who has activated the one of this checkout."""
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    return environment(PATH=path, LANG="C.UTF-8", COLUMNS="100")
