"""The sink against receivers that die anywhere; 10,000 runs: ``make simulate``."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spark.write.delivery_model import Run, choices_of


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.binary(max_size=200))
def test_rows_are_conserved_whatever_is_chosen(chosen: bytes) -> None:
    assert Run(chosen)() > 0


@pytest.mark.parametrize("first", [0, 20, 40])
def test_rows_are_conserved_in_runs_of_chance(first: int) -> None:
    for seed in range(first, first + 20):
        assert Run(choices_of(seed))() > 0
