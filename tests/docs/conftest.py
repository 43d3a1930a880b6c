from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import plain_place
from tests.docs.plain_place import PlainPlace


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plain_place.build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def plain(tmp_path: Path, wheel: Path) -> PlainPlace:
    """A user's folder with the wheel installed; its path has a space."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    return plain_place.make(folder, tmp_path / "bare", wheel)
