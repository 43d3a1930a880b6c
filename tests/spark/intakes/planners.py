"""Planners of one cursor or more, and the intakes that they find."""

from __future__ import annotations

from aqueduct_core.flight.credentials import Credentials
from aqueduct_spark.formats.aqueduct.format import AqueductFormat
from aqueduct_spark.intakes.clients import IntakeClients
from aqueduct_spark.intakes.discovery import LaunchedIntakes
from aqueduct_spark.intakes.rendezvous import Rendezvous
from aqueduct_spark.planning.views import Reader
from tests.spark.ground import Ground

QUERY = Reader("query")


def launched(
    ground: Ground,
    planners: list[IntakeClients],
    *readers: Reader,
    rendezvous: Rendezvous | None = None,
    credentials: Credentials | None = None,
) -> IntakeClients:
    discovery = LaunchedIntakes(rendezvous or ground.rendezvous, 1)
    planners.append(
        IntakeClients(
            discovery,
            lambda: credentials or ground.credentials,
            readers or [QUERY],
            AqueductFormat(),
        )
    )
    return planners[-1]
