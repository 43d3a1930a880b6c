"""``@rule("AQ-ACK-7")`` names the protocol rules that a test proves."""

from __future__ import annotations

import pytest


def rule(*ids: str) -> pytest.MarkDecorator:
    return pytest.mark.rule(*ids)
