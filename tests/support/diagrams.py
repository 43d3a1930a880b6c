"""``docs/states.md`` and its pictures, made from the tables and by running two engines.

    python -m tests.support.diagrams [--check]

``--check`` writes nothing and exits with 1 when a file is out of date.
"""

from __future__ import annotations

import sys
from enum import Enum

from aqueduct_core.aqueduct.receiver import RECEIVER_TABLE, ReceiverState
from aqueduct_core.aqueduct.sender_table import SENDER_TABLE, SenderState
from tests.support import sequencechart, statechart
from tests.support.repository import ROOT
from tests.support.statechart import Table

DOCS = ROOT / "docs"
NOT_ALLOWED = "refused to the application"
VIOLATION = "closes the connection"

SENDER_TITLE = "The sending half of a channel"
RECEIVER_TITLE = "The receiving half of a channel"


def pages() -> dict[str, str]:
    """File below ``docs`` → its text."""
    return {
        "states/sender.svg": statechart.draw(
            SENDER_TABLE, SenderState.OPEN, SENDER_TITLE, NOT_ALLOWED
        ),
        "states/receiver.svg": statechart.draw(
            RECEIVER_TABLE, ReceiverState.OPEN, RECEIVER_TITLE, VIOLATION
        ),
        "states/handshake.svg": sequencechart.handshake(),
        "states/life.svg": sequencechart.life(),
        "states/loss.svg": sequencechart.loss(),
        "states/lost-channel.svg": sequencechart.lost_channel(),
        "states.md": _text(),
    }


def _text() -> str:
    return f"""# States

Made by `python -m tests.support.diagrams` from `SENDER_TABLE` and `RECEIVER_TABLE` (in
`aqueduct_core/aqueduct/sender_table.py` and `receiver.py`) and by running two engines on a virtual
clock, {sequencechart.LATENCY * 1000:.0f} ms from each other; do not edit. What the frames mean is
in [protocol.md](protocol.md).

## {SENDER_TITLE}

SEND, FINISH and CANCEL come from the application; ACKS stands for `ACK_RELIABLE`,
`ACK_NACK_UNRELIABLE` and `DEQUEUED`; LOST for a carrier message that never arrived. Losing the
connection ends a half in any state.

![{SENDER_TITLE}](states/sender.svg)

{_table(SENDER_TABLE, NOT_ALLOWED)}

## {RECEIVER_TITLE}

COMPLETE: every message that the finish speaks of is here and settled, so it cannot happen before
the finish. CLOSE comes from the application. Every way to GONE but FORGET and LOST sends the acks
that are due, then `CLOSE_RECEIVER`.

![{RECEIVER_TITLE}](states/receiver.svg)

{_table(RECEIVER_TABLE, VIOLATION)}

## Handshake

![Handshake](states/handshake.svg)

## A channel from its carrier to its end

![The life of a channel](states/life.svg)

## Loss

![Loss of an unreliable message](states/loss.svg)

## A channel that is lost in transit

![A lost channel](states/lost-channel.svg)
"""


def _table(table: Table, refused: str) -> str:
    states = list(table)
    inputs: list[Enum] = list(table[states[0]])
    lines = [
        "| | " + " | ".join(state.name for state in states) + " |",
        "|---" * (len(states) + 1) + "|",
    ]
    for given in inputs:
        cells = []
        for state in states:
            after = table[state][given]
            cells.append(refused if after is None else "–" if after is state else after.name)
        lines.append(f"| {given.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    stale = []
    for name, text in pages().items():
        path = DOCS / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale and "--check" in arguments:
        names = ", ".join(f"docs/{name}" for name in stale)
        print(f"{names} out of date: run python -m tests.support.diagrams")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
