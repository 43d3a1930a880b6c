"""Which halves may leave in a message."""

from __future__ import annotations

from collections.abc import Sequence

from aqueduct_core.aio.local_channel import LocalChannel
from aqueduct_core.aio.message import CarriedHalves
from aqueduct_core.aio.outcomes import Misuse
from aqueduct_core.aio.receive_state import ReceiveState
from aqueduct_core.aio.send_state import SendState


def claim(cores: Sequence[SendState | ReceiveState], carrier: SendState) -> list[CarriedHalves]:
    """Check that these halves may leave in a message of ``carrier``; nothing changes.

    Raises: Misuse for a half of another event loop, one that is networked, has ended or would
    travel inside itself, and for both halves of one channel.
    """
    pipes: set[LocalChannel] = set()
    cargo: list[CarriedHalves] = []
    for core in cores:
        pipe = core.sink if isinstance(core, SendState) else core.source
        if core.loop is not carrier.loop:
            raise Misuse(f"{core.label} belongs to another event loop: it cannot be attached here")
        if not isinstance(pipe, LocalChannel):
            raise Misuse(
                f"{core.label} is networked already: a half travels once; attach a half of a new "
                "channel, and pass on to it what this one receives"
            )
        if pipe in pipes:
            raise Misuse(f"{core.label}: only one half of a channel can be sent away")
        if pipe is carrier.sink:
            raise Misuse(f"{core.label} cannot travel inside itself")
        other: CarriedHalves = pipe.inlet if core is pipe.outlet else pipe.outlet
        if other.aboard:
            raise Misuse(f"{core.label}: its other half is inside a message that was not read yet")
        if isinstance(core, SendState):
            core.refuse_travel()
        elif core.closed:
            raise Misuse(f"{core.label} was closed: it cannot be attached")
        pipes.add(pipe)
        cargo.append(core)
    return cargo
