"""What a configuration refuses."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.config import Config


@pytest.mark.parametrize("size", [-1, 1 << 62])
@pytest.mark.parametrize("buffer", ["flow_per_channel", "flow_all_channels"])
def test_a_buffer_that_no_header_can_announce_is_refused(buffer: str, size: int) -> None:
    with pytest.raises(ValueError, match="2\\^62"):
        Config(**{buffer: size})  # type: ignore[arg-type]
    assert Config(flow_per_channel=(1 << 62) - 1).flow_all_channels == 0
