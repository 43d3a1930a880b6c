"""When an endpoint is dialled again, with a network that is never there."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from aqueduct_core.errors import (
    AqueductError,
    AuthFailed,
    ConnectFailed,
    IntakeFailed,
    TlsFailed,
)
from aqueduct_core.intake.sessions.endpoint_connection import EndpointConnection
from aqueduct_core.intake.settings.dial import ConnectSettings
from aqueduct_core.primitives.host_port import HostPort

WHERE = HostPort("host", 4433)


class Silence:
    """A remote with which no connection comes about; nothing is wanted after some attempts."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.tokens: list[str | None] = []
        self.requests: Any = self
        self.connection: EndpointConnection
        self.states: list[Any] = []

    @property
    def settled(self) -> bool:
        return not self.errors

    def prepare(self, token: str | None) -> Any:
        self.tokens.append(token)

    async def dial(self, **given: Any) -> Any:
        raise self.errors.pop(0)

    def changed(self) -> None:
        self.states.append(self.connection.state)


def attempts(*errors: Exception, **given: Any) -> tuple[Silence, list[float]]:
    """What became of these failures, and the waits behind all but the last of them."""
    waits: list[float] = []
    silence = Silence(*errors)

    async def main() -> None:
        settings = ConnectSettings(("host:4433",), first_wait=0.5, longest_wait=8.0, **given)
        silence.connection = EndpointConnection(
            WHERE,
            silence,  # type: ignore[arg-type]
            settings,
            dial=silence.dial,
            no_error=0,
            context=SimpleNamespace(),  # type: ignore[arg-type]
            joined=lambda _: None,
            changed=silence.changed,
        )
        await silence.connection.run()

    async def slept(seconds: float) -> None:
        waits.append(seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aqueduct_core.intake.sessions.endpoint_connection.asyncio.sleep", slept)
        asyncio.run(main())
    return silence, waits


def test_what_may_pass_is_tried_again_soon_and_then_later() -> None:
    silence, waits = attempts(*[ConnectFailed("NO_REPLY", "silence", "Wait")] * 8)
    assert [state.refused for state in silence.states] == [False] * 8
    assert silence.states[-1].attempts == 8
    assert waits[0] <= 0.5 < 2.0 < max(waits) <= 8.0
    assert silence.connection.over


@pytest.mark.parametrize("kind", [AuthFailed, TlsFailed])
def test_a_refusal_is_tried_again_at_the_longest_wait(kind: type[AqueductError]) -> None:
    refusal = kind({AuthFailed: "REJECTED", TlsFailed: "EXPIRED"}[kind], "no", "Correct it")  # type: ignore[index]
    silence, waits = attempts(*[refusal] * 3)
    assert all(state.refused and not state.connected for state in silence.states)
    assert min(waits) >= 4.0


def test_the_token_file_is_read_for_each_attempt(tmp_path: Any) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    silence, _ = attempts(*[ConnectFailed("NO_REPLY", "silence", "Wait")] * 2, token_file=str(file))
    assert silence.tokens == ["one", "one"]


def test_a_fault_of_ours_is_told_and_the_endpoint_dialled_again() -> None:
    """The code of a protocol runs in an attempt: its faults must not look like silence."""
    silence, waits = attempts(KeyError("prepare"), ConnectFailed("NO_REPLY", "silence", "Wait"))
    assert [state.attempts for state in silence.states] == [1, 2]
    told = silence.states[0].error
    assert isinstance(told, IntakeFailed)
    assert "KeyError" in told.what
    assert len(waits) == 1
    assert silence.connection.over
