"""The states of the sending half of a channel, and what leads from one to another.

Theory of operation. A half is OPEN until the application finishes or cancels it; then it waits
for the peer's CLOSE_RECEIVER, which alone ends it in good order. Acks are taken in every state.
FORGET_CHANNEL, a lost carrier and a lost connection end it from any state. The table says all
of that; what is not in the table cannot happen to a half that is gone, because the routing
tables do not hold it any more.
"""

from __future__ import annotations

from enum import IntEnum, auto


class SenderState(IntEnum):
    OPEN = auto()
    FINISHING = auto()
    CANCELLING = auto()
    GONE = auto()


class SenderInput(IntEnum):
    SEND = auto()
    FINISH = auto()
    CANCEL = auto()
    ACKS = auto()
    CLOSE_RECEIVER = auto()
    FORGET = auto()
    LOST = auto()


REFUSED = None
"""In the table: the application may not do this now; it gets ``NotAllowed``."""

_S, _I = SenderState, SenderInput
SENDER_TABLE: dict[SenderState, dict[SenderInput, SenderState | None]] = {
    _S.OPEN: {
        _I.SEND: _S.OPEN,
        _I.FINISH: _S.FINISHING,
        _I.CANCEL: _S.CANCELLING,
        _I.ACKS: _S.OPEN,
        _I.CLOSE_RECEIVER: _S.GONE,
        _I.FORGET: _S.GONE,
        _I.LOST: _S.GONE,
    },
    _S.FINISHING: {
        _I.SEND: REFUSED,
        _I.FINISH: REFUSED,
        _I.CANCEL: REFUSED,
        _I.ACKS: _S.FINISHING,
        _I.CLOSE_RECEIVER: _S.GONE,
        _I.FORGET: _S.GONE,
        _I.LOST: _S.GONE,
    },
    _S.CANCELLING: {
        _I.SEND: REFUSED,
        _I.FINISH: REFUSED,
        _I.CANCEL: REFUSED,
        _I.ACKS: _S.CANCELLING,
        _I.CLOSE_RECEIVER: _S.GONE,
        _I.FORGET: _S.GONE,
        _I.LOST: _S.GONE,
    },
}
