"""Our log lines as JSON, for programs that collect logs."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from aqueduct_core.logs.lines import LONGEST_LINE, LineFormatter


def named(event: str, **fields: Any) -> dict[str, Any]:
    """For ``extra`` of a log call: what happened, as a name that does not change, and with what. A
    name is of a kind that there are few of; values are text or numbers, and never a secret."""
    return {"event": event, "fields": fields}


class JsonFormatter(LineFormatter):
    """A record is one line with one JSON object, which is ASCII: ``time`` (ISO 8601, UTC),
    ``level``, ``logger``, ``event`` (the name that its call gave, else its text before values were
    put in), ``message`` as people read it, and where there are some ``fields`` and ``trace``.

    What a peer wrote is escaped in ``message`` and ``fields`` as in a line of text.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _moment(record.created),
            "level": record.levelname,
            "logger": record.name,
            "event": getattr(record, "event", None) or _template(record),
            "message": self.one_line(record.getMessage()),
        }
        fields = getattr(record, "fields", None)
        if fields:
            line["fields"] = {name: self._value(value) for name, value in fields.items()}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)

    def note(self, text: str) -> str:
        line = {"level": "WARNING", "logger": __name__, "event": "log", "message": text}
        return json.dumps({"time": _moment(datetime.now(UTC).timestamp()), **line})

    def _value(self, value: Any) -> Any:
        return value if isinstance(value, int | float | None) else self.one_line(str(value))


def _template(record: logging.LogRecord) -> str:
    """The text of the call, before values were put in; of one without a text whose call it was."""
    text = str(record.msg)[:LONGEST_LINE]
    return text if text.strip("%s ") else record.name.rpartition(".")[2]


def _moment(seconds: float) -> str:
    stamp = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return stamp.replace("+00:00", "Z")
