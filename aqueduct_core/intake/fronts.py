"""Which front the settings of an intake ask for."""

from __future__ import annotations

from aqueduct_core.intake.dialing import Dialing
from aqueduct_core.intake.front import Front
from aqueduct_core.intake.listening import Listening
from aqueduct_core.intake.settings import IntakeSettings


def make_front(settings: IntakeSettings) -> Front:
    """Raises: InvalidOption, TlsFailed, AuthFailed where certificates or tokens cannot be had."""
    if settings.connect is not None:
        return Dialing(settings, settings.connect)
    assert settings.listen is not None
    return Listening(settings, settings.listen)
