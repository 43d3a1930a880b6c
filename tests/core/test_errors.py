"""Errors have one form, and survive the way from a task to the driver."""

from __future__ import annotations

import pickle
import re

import pytest

from aqueduct_core import errors
from aqueduct_core.errors import AqueductError

CLASSES = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, AqueductError) and each is not AqueductError
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_each_condition_has_the_form_and_can_be_pickled(kind: type[AqueductError]) -> None:
    for subclass, sqlstate in kind.subclasses.items():
        error = kind(subclass, "What happened", "What to do")
        name = f"{kind.condition}.{subclass}" if subclass else kind.condition
        assert str(error) == f"[{name}] What happened. What to do. SQLSTATE: {sqlstate}"
        assert re.fullmatch(r"AQUEDUCT_[A-Z_]+(\.[A-Z_]+)?", name)
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (kind, str(error))


def test_a_subclass_that_there_is_not_is_no_error_of_ours() -> None:
    with pytest.raises(ValueError, match="NOWHERE"):
        errors.ConnectFailed("NOWHERE", "x", "y")
