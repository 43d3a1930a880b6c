"""Which number an intake has, and how intakes that run on their own are found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aqueduct_core.errors import (
    AuthFailed,
    IntakeFailed,
    InvalidOption,
    TlsFailed,
)
from aqueduct_core.flight.credentials import Credentials
from aqueduct_spark.formats.aqueduct.format import AqueductFormat
from aqueduct_spark.intakes.clients import IntakeClients
from aqueduct_spark.intakes.discovery import StandaloneIntakes, numbered
from aqueduct_spark.model.offsets import SpoolPosition, StreamOffset
from tests.spark.ground import Ground
from tests.spark.intakes.planners import QUERY


@pytest.mark.parametrize(
    ("known", "served", "found"),
    [
        ({}, [], {}),
        ({}, ["a", "b"], {0: 0, 1: 1}),
        ({}, [None, "b"], {1: 1}),
        ({0: "a", 1: "b"}, ["b", "a"], {0: 1, 1: 0}),  # the order of addresses has no say
        ({0: "a", 1: "b"}, [None, "a"], {0: 1}),
        ({0: "a", 1: "b"}, ["c", None], {}),  # its number may be that of the one not seen
        ({0: "a"}, ["b", "a"], {0: 1, 1: 0}),  # one more, named first
        ({0: "a"}, ["a", "b", "c"], {0: 0, 1: 1, 2: 2}),
        ({0: "a"}, ["b", None, "c"], {2: 2, 1: 0}),
        ({0: "a", 1: "b"}, ["a", "c"], {0: 0, 1: 1}),  # replaced: planning tells of the loss
        ({0: "a", 1: "b"}, ["c", "a"], {0: 1, 1: 0}),
        ({0: "a", 1: "b"}, ["b"], {1: 0}),  # fewer addresses: planning refuses them
    ],
)
def test_numbers_of_standalone_intakes(
    known: dict[int, str], served: list[str | None], found: dict[int, int]
) -> None:
    assert numbered(known, served) == found


def test_an_intake_named_twice_is_refused() -> None:
    with pytest.raises(InvalidOption, match="spool a twice"):
        numbered({}, ["a", "b", "a"])


def test_standalone_intakes_are_known_by_their_spools(
    ground: Ground, planners: list[IntakeClients]
) -> None:
    one = ground.ensure()
    two = ground.ensure(ground.other_order(1))
    nobody = f"127.0.0.1:{ground.rendezvous.port}"
    standalone = IntakeClients(
        StandaloneIntakes([two.at, one.at], 60.0),
        lambda: ground.credentials,
        [QUERY],
        AqueductFormat(),
    )
    planners.append(standalone)
    seen = standalone.observe(StreamOffset())
    assert {number: status.id for number, status in seen.items()} == {0: two.id, 1: one.id}
    known = StreamOffset({0: SpoolPosition(one.id, "h:1", 1, (0, 0))})
    seen = standalone.observe(known)
    assert {number: status.id for number, status in seen.items()} == {0: one.id, 1: two.id}
    impatient = IntakeClients(
        StandaloneIntakes([nobody], 0.0), lambda: ground.credentials, [QUERY], AqueductFormat()
    )
    planners.append(impatient)
    assert impatient.observe(known) == {}
    with pytest.raises(IntakeFailed, match=f"{nobody}.*{one.id}") as failed:
        impatient.observe(known)
    assert failed.value.subclass == "UNREACHABLE"
    stranger = Credentials.fresh()
    wrong = replace(ground.credentials, token=stranger.token)
    for credentials, error in ((wrong, AuthFailed), (stranger, TlsFailed)):
        planners.append(
            IntakeClients(
                StandaloneIntakes([one.at], 60.0),
                lambda c=credentials: c,
                [QUERY],
                AqueductFormat(),
            )  # type: ignore[misc]
        )
        with pytest.raises(error):
            planners[-1].observe(known)
