"""Channels of the peer that a message carried."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.faults import Code, PeerFault
from aqueduct_core.aqueduct.remote_channels import RemoteChannels
from tests.support.rules import rule


@rule("AQ-LIFE-10")
def test_of_too_many_ranges_of_claims_the_lowest_is_forgotten() -> None:
    claims = RemoteChannels(Config(max_tombstone_ranges=2))
    for channel in (8, 24, 40):
        claims.claim(channel, alive=False)
    claims.claim(1 << 3 | 1, alive=False)  # of another kind
    assert claims.ranges == 3
    for channel in (24, 40, 9):
        with pytest.raises(PeerFault) as caught:
            claims.claim(channel, alive=False)
        assert caught.value.code is Code.STATE
    claims.claim(8, alive=False)
