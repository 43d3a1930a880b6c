"""Planners that end with the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aqueduct_spark.intakes.clients import IntakeClients
from tests.spark.ground import Ground


@pytest.fixture
def planners(ground: Ground) -> Iterator[list[IntakeClients]]:
    made: list[IntakeClients] = []
    yield made
    for clients in made:
        clients.close()
