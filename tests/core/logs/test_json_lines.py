"""A line of JSON is one record, whatever it quotes."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any

from aqueduct_core.logs.handler import LogHandler
from aqueduct_core.logs.json_lines import JsonFormatter, named
from aqueduct_core.logs.lines import LONGEST_LINE


def record(message: str, *values: object, **more: Any) -> logging.LogRecord:
    made = logging.LogRecord("a.b", logging.WARNING, "file", 1, message, values, more.get("trace"))
    made.created = 1_800_000_000.25
    made.__dict__.update(more.get("extra", {}))
    return made


def parsed(made: logging.LogRecord) -> dict[str, Any]:
    line = JsonFormatter().format(made)
    assert "\n" not in line
    assert line.isascii()
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_line_has_time_level_event_and_message() -> None:
    assert parsed(record("%s opened, producer %r", "s-1", "till")) == {
        "time": "2027-01-15T08:00:00.250Z",
        "level": "WARNING",
        "logger": "a.b",
        "event": "%s opened, producer %r",
        "message": "s-1 opened, producer 'till'",
    }


def test_a_call_without_a_text_is_named_by_who_made_it() -> None:
    assert parsed(record("%s", "it waits"))["event"] == "b"


def test_a_call_names_its_event_and_fields() -> None:
    extra = named("connection-opened", peer="h:1", producer=None, count=3)
    found = parsed(record("opened", extra=extra))
    assert found["event"] == "connection-opened"
    assert found["fields"] == {"peer": "h:1", "producer": None, "count": 3}


def test_what_a_peer_wrote_is_escaped_and_bounded() -> None:
    forged = 'bye"}\n{"level":"INFO"}\x1b[8m\u202e' + "x" * 10**6
    found = parsed(record("closed: %s", forged, extra=named("closed", why=forged)))
    for text in (found["message"], found["fields"]["why"]):
        assert text.isprintable()
        assert len(text) <= LONGEST_LINE
        assert r"\n{" in text


def test_a_traceback_is_in_its_line() -> None:
    try:
        raise ValueError("bad\nline")
    except ValueError:
        found = parsed(record("it failed", trace=sys.exc_info()))
    assert found["trace"].strip().startswith("Traceback")
    assert "ValueError: bad" in found["trace"]


def test_every_line_of_a_handler_is_json() -> None:
    mine, theirs = os.pipe()
    handler = LogHandler(theirs)
    handler.form = JsonFormatter()
    handler._left_out = 2
    handler.emit(record("hello"))
    handler.flush()
    os.close(theirs)
    with open(mine, "rb") as lines:
        found = [json.loads(line) for line in lines]
    assert [each["message"] for each in found] == [
        "2 lines are left out here: nobody took them",
        "hello",
    ]
