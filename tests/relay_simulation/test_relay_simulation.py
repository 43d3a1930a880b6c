"""500 seeds; ``make simulate`` runs 20,000."""

from __future__ import annotations

import pytest

from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.relay.media import RelayedMedia
from tests.relay_simulation.campaign import run_relay_seeds
from tests.relay_simulation.scenario import scenario
from tests.relay_simulation.world import run_relay_seed
from tests.support.rules import rule

SEEDS, AT_ONCE = 500, 25


@rule("Q-12", "Q-21", "Q-26", "Q-27", "Q-28", "Q-30")
@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_what_readers_have_is_what_was_published_or_a_hole(first: int) -> None:
    """Through relays of relays that lose their upstream, with loss,
    reordering, publishers that break off, slow and stopped readers, and caches that are small."""
    totals = run_relay_seeds(first, AT_ONCE)
    assert not totals.failures
    assert totals.objects > 10 * AT_ONCE


@pytest.mark.parametrize("seed", [5889, 15089, 18128])
def test_the_size_of_a_group_gets_through_behind_its_hole(seed: int) -> None:
    """Seeds that once failed: a hole stood for the first object of a group before anybody knew how
    many the group before had, and its readers never learned it."""
    assert run_relay_seed(seed).holes


@rule("Q-30")
@pytest.mark.parametrize("seed", [9142, 15245])
def test_a_relay_that_was_away_until_all_was_forgotten_ends_what_it_has(seed: int) -> None:
    """Seeds that once failed: nothing else happened there after it had asked again."""
    assert run_relay_seed(seed).holes


@rule("Q-36")
def test_a_hole_at_the_end_of_a_group_stands_for_all_that_was_behind_it() -> None:
    """A seed that once failed: a post that began anew behind what had gone, at an origin that had
    the first piece of it, where nobody knew how many objects the groups between had."""
    assert run_relay_seed(9471).holes


def test_the_same_seed_is_the_same_run() -> None:
    assert scenario(3) == scenario(3)
    assert run_relay_seed(3) == run_relay_seed(3)


@pytest.mark.parametrize("damage", ["lost", "changed"])
def test_a_relay_that_damages_media_is_seen(damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take = RelayedMedia.take

    def damaged(media: RelayedMedia, fragments: list[Fragment], now: float) -> None:
        kept = [f for f in fragments if f.object != 2] if damage == "lost" else fragments
        if damage == "changed":
            kept = [f._replace(data=f.data[:-1] + b"\0") if f.data else f for f in fragments]
        take(media, kept, now)

    monkeypatch.setattr(RelayedMedia, "take", damaged)
    totals = run_relay_seeds(0, 20)
    assert len(totals.failures) > 5
