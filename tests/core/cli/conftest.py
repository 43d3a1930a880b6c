from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.cli.running import aqueduct


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("cli") / "certificates"
    done = aqueduct("cert", directory)
    assert done.returncode == 0, done.stderr
    return directory
