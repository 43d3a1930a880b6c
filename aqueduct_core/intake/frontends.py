"""Which front the settings of an intake ask for."""

from __future__ import annotations

from aqueduct_core.intake.sessions.dial import DialFrontend
from aqueduct_core.intake.sessions.frontend import Frontend
from aqueduct_core.intake.sessions.listen import ListenFrontend
from aqueduct_core.intake.settings.intake import AqueductIntake


def make_front(settings: AqueductIntake) -> Frontend:
    """Raises: InvalidOption, TlsFailed, AuthFailed where certificates or tokens cannot be had."""
    if settings.connect is not None:
        return DialFrontend(settings, settings.connect)
    assert settings.listen is not None
    return ListenFrontend(settings, settings.listen)
