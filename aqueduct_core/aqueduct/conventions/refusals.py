"""What the end of a connection means for the side that is left, as an error of the project.

Judges by the origin of a close code and its number; the reason is for the reader only. ``where``
names the peer for him.
"""

from __future__ import annotations

from aqueduct_core.aqueduct.conventions.headers import (
    CODE_FENCED,
    CODE_NOT_REPEATABLE,
    CODE_REJECTED,
)
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.engine.close_codes import CloseOrigin, ConnectionEnd, how_lost
from aqueduct_core.errors import (
    AqueductError,
    AuthFailed,
    ConnectFailed,
    ProtocolViolation,
    SinkFailed,
    VersionMismatch,
)

OVER_LIMIT_REMEDY = (
    "Send less, or raise that limit at the receiver (an intake has maxMessageBytes, "
    "limits.headerBytes and others): sent again as it is, it ends in the same way"
)


def exceeded_limit(closed: ConnectionEnd) -> bool:
    """Whether the peer closed a connection for what it was sent, which is over a limit of its own.
    Who sends cannot know that limit before; the reason names it, and what it was sent."""
    told = closed.by_peer and closed.origin is CloseOrigin.APPLICATION
    return told and closed.code == Code.RESOURCE_LIMIT


def broke_protocol(closed: ConnectionEnd) -> bool:
    """Whether we ended a connection because its peer broke the protocol."""
    ours = not closed.by_peer and closed.origin is CloseOrigin.APPLICATION
    return ours and closed.code in set(Code) - {Code.NO_ERROR}


def refusal(where: str, closed: ConnectionEnd) -> AqueductError:
    """Why a server closed a connection in place of accepting it; or that it was lost before."""
    if closed.origin is not CloseOrigin.APPLICATION:
        return ConnectFailed(
            "NO_REPLY",
            f"the connection to {where} was lost before it was accepted: {how_lost(closed)[:400]}",
            "Try again, or look into the log of the server",
        )
    reason = closed.reason or "no reason given"
    if closed.by_peer and closed.code == CODE_REJECTED:
        return AuthFailed(
            "REJECTED",
            f"{where} refused the connection: {reason}",
            "Give a token that it takes (--token-file, auth.tokenFile), not an expired one",
        )
    if closed.code == Code.VERSION:
        return VersionMismatch(
            "",
            f"{where} speaks another revision of the protocol: {reason}",
            "Use matching versions on both ends",
        )
    if broke_protocol(closed):
        return ProtocolViolation(
            "",
            f"{where} broke the protocol (code {closed.code}): {reason}",
            "Check what listens there",
        )
    return ConnectFailed(
        "NO_REPLY",
        f"{where} closed the connection before it was accepted (code {closed.code}): {reason}",
        OVER_LIMIT_REMEDY
        if exceeded_limit(closed)
        else "Try again, or look into the log of the server",
    )


def over_limit(where: str, closed: ConnectionEnd) -> SinkFailed | None:
    """The error of it; None: it was closed for something else."""
    if not exceeded_limit(closed):
        return None
    return SinkFailed(
        "MESSAGE_TOO_LARGE",
        f"{where} closed the connection, for it was sent more than it takes: "
        f"{closed.reason[:200] or 'it does not say of what'}",
        OVER_LIMIT_REMEDY,
    )


def refusal_of_producer(where: str, producer: str, closed: ConnectionEnd) -> SinkFailed | None:
    """What a server has against a producer that it had accepted, and no new connection changes."""
    if not closed.by_peer or closed.origin is not CloseOrigin.APPLICATION:
        return None
    if exceeded_limit(closed):
        return over_limit(where, closed)
    if closed.code == CODE_NOT_REPEATABLE:
        return SinkFailed(
            "NOT_REPEATABLE",
            f"{where} refused what producer {producer!r} sends: {closed.reason[:200]}",
            "Send other content under another identity or channel, or behind the numbers that are "
            "stored",
        )
    if closed.code == CODE_FENCED:
        return SinkFailed(
            "FENCED",
            f"producer {producer!r} was put out of its place at {where}: {closed.reason[:200]}",
            "Give each producer that runs at the same time an identity of its own, or a channel",
        )
    return None
