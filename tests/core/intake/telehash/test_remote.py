"""What the end of a line that was dialled means, and that there are no tokens."""

from __future__ import annotations

import pytest

from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.errors import AqueductError, AuthFailed, ConnectFailed, ProtocolViolation
from aqueduct_core.intake.sessions.endpoint_connection import REFUSALS
from aqueduct_core.intake.telehash.event_recorder import EventBudget
from aqueduct_core.intake.telehash.remote import TelehashRemote
from aqueduct_core.telehash.faults import CloseCode
from tests.core.intake.telehash.scene import settings


def remote() -> TelehashRemote:
    given = settings("_a", dials=True)
    assert given.connect is not None
    return TelehashRemote("peer:1", given, given.connect, {}, EventBudget())


@pytest.mark.parametrize(
    ("end", "kind", "said"),
    [
        (LinkLost(0, "bye", True), ConnectFailed, "peer:1 ended: closed by peer, code 0: bye"),
        (
            LinkLost(0, "idle timeout", False, CloseOrigin.IDLE_TIMEOUT),
            ConnectFailed,
            "ended: lost: idle timeout",
        ),
        (
            LinkLost(CloseCode.NO_DATAGRAMS, "no datagrams", False),
            ProtocolViolation,
            "peer:1 cannot be used: .*no datagrams",
        ),
    ],
)
def test_an_end_is_an_error_that_says_whether_to_come_again(
    end: LinkLost, kind: type[AqueductError], said: str
) -> None:
    error = remote().why(end, accepted=True)
    assert isinstance(error, kind)
    with pytest.raises(kind, match=said):
        raise error
    assert isinstance(error, REFUSALS) is (kind is ProtocolViolation)


def test_before_it_was_accepted_it_says_so() -> None:
    error = remote().why(LinkLost(0, "", True), accepted=False)
    assert "ended before it was accepted" in str(error)


def test_a_token_has_no_place() -> None:
    with pytest.raises(AuthFailed, match="no place for a token"):
        remote().prepare("secret")


def test_each_type_is_asked_for() -> None:
    asked = remote().requests
    assert (asked.requested, asked.take(0.0)) == (1, ["_a"])
