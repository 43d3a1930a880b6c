"""URLs as a set, and who hears of them."""

from __future__ import annotations

from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.relay.media import TransactionKey
from aqueduct_core.quicr.relay.subscriptions import PrefixSubscriptions
from tests.support.rules import rule

ENGINE = QuicrEngine(client=False)
ONE, OTHER = TransactionKey(ENGINE, 0), TransactionKey(ENGINE, 4)


@rule("Q-22")
def test_urls_with_a_prefix_the_newest_first() -> None:
    subscriptions = PrefixSubscriptions(10)
    for url in (b"a/1", b"b/1", b"a/2"):
        subscriptions.add_posted(url)
    subscriptions.add_remote(b"a/3")
    assert subscriptions.known(b"a/") == [b"a/3", b"a/2", b"a/1"]
    assert subscriptions.known(b"") == [b"a/3", b"a/2", b"b/1", b"a/1"]
    subscriptions.withdraw(b"a/2")
    assert subscriptions.known(b"a/") == [b"a/3", b"a/1"]


@rule("Q-22", "Q-25")
def test_subscribers_hear_of_a_url_once() -> None:
    subscriptions = PrefixSubscriptions(10)
    assert subscriptions.subscribe(ONE, b"a/")
    assert subscriptions.subscribe(OTHER, b"")
    assert subscriptions.add_remote(b"a/1") == [ONE, OTHER]
    assert subscriptions.add_remote(b"a/1") == []
    assert subscriptions.add_posted(b"b") == [OTHER]
    assert subscriptions.add_posted(b"b") == []


@rule("Q-24")
def test_a_prefix_is_forwarded_once_and_given_up_with_its_last_subscription() -> None:
    subscriptions = PrefixSubscriptions(10)
    assert subscriptions.subscribe(ONE, b"a/")
    assert not subscriptions.subscribe(OTHER, b"a/")
    subscriptions.add_remote(b"a/1")
    assert subscriptions.unsubscribe(ONE) is None
    assert subscriptions.known(b"a/") == [b"a/1"]
    assert subscriptions.unsubscribe(OTHER) == b"a/"
    # nobody would hear now if it went
    assert subscriptions.known(b"a/") == []


def test_what_another_prefix_covers_stays_known() -> None:
    subscriptions = PrefixSubscriptions(10)
    subscriptions.subscribe(ONE, b"a/")
    subscriptions.subscribe(OTHER, b"a/b/")
    for url in (b"a/1", b"a/b/1"):
        subscriptions.add_remote(url)
    subscriptions.unsubscribe(ONE)
    assert subscriptions.known(b"") == [b"a/b/1"]


def test_the_oldest_of_too_many_is_forgotten() -> None:
    subscriptions = PrefixSubscriptions(2)
    subscriptions.subscribe(ONE, b"")
    for url in (b"1", b"2", b"3"):
        assert subscriptions.add_remote(url) == [ONE]
    assert subscriptions.known(b"") == [b"3", b"2"]
