"""The form of our log lines, which nobody who writes to us can forge."""

from __future__ import annotations

import logging

from aqueduct_core.escape import escaped

LONGEST_LINE = 8_000
"""Characters of a record, and of each line of a traceback."""

LONGEST_TRACE = 200
"""Lines of a traceback; what is between its beginning and its end is left out."""

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LineFormatter(logging.Formatter):
    """A record is one line; a traceback follows in lines that begin with a blank.

    So a line that begins with a time is one of ours, whatever texts of peers it quotes.
    """

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        return self.one_line(super().formatMessage(record))

    def one_line(self, text: str) -> str:
        """Text that may quote a peer, as it may stand in a line."""
        return escaped(text, LONGEST_LINE)

    def note(self, text: str) -> str:
        """A line about the log itself."""
        return f"  ({text})"

    def formatException(self, ei: object) -> str:
        return _indented(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    lines = text.splitlines()
    if len(lines) > LONGEST_TRACE:
        half = LONGEST_TRACE // 2
        lines[half:-half] = [f"… {len(lines) - 2 * half} lines …"]
    return "\n".join(f"  {escaped(line, LONGEST_LINE)}" for line in lines)
