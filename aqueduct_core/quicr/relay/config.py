"""What a relay holds, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from aqueduct_core.errors import InvalidOption
from aqueduct_core.quicr.media.cache_memory import LIFETIME, MEMORY


@dataclass(frozen=True, slots=True)
class RelayConfig:
    """Bounds and times of a relay or an origin; sizes in bytes, times in seconds.

    Attributes:
        upstream_datagram: how a relay gets media from its upstream, and posts there: as datagrams
            or on streams, whatever its own clients use (Q26).
        eager: request every URL that the upstream tells, as the prototype does (Q24). Without it,
            only those that somebody reads: a subscription would bring everything else, too.
        memory: of all that is cached; the oldest objects go for new ones. A post of an object that
            is larger is cancelled.
        lifetime: how long an object stays in the cache (Q29).
        linger: how long a media stays after all was sent to its last reader (Q29).
        repost_wait: how long readers wait for somebody to post on, where a post broke off (Q29),
            for anything of a media from an upstream that was lost and is asked again, and for what
            is missing when its final point is known; then the media ends with what came of it
            (Q30), and a hole where that point is not known.
        max_media: URLs that are posted or asked for at once. Each costs a few kilobytes, and up to
            a megabyte where its sender scatters objects, or makes many groups. For one more, the
            oldest gives way that nobody posts or reads now; where there is none, it is refused.
        max_posts: posts of one connection at once; one more is refused. A relay has one connection
            to its upstream for all of its clients, so this and the two that follow bound what they
            have together, too.
        max_waiting: requests of one connection at once for URLs of which nothing has come; one
            more is refused, so that nobody uses up the URLs of all.
        max_subscriptions: of one connection; each is told every URL. One more is refused.
        max_known: URLs that the upstream has told and that are kept for new subscriptions; the
            oldest is forgotten for one more.
    """

    upstream_datagram: bool = False
    eager: bool = False
    memory: int = MEMORY
    lifetime: float = LIFETIME
    linger: float = 10.0
    repost_wait: float = 30.0
    max_media: int = 4_096
    max_posts: int = 1_024
    max_waiting: int = 1_024
    max_subscriptions: int = 256
    max_known: int = 4_096

    def __post_init__(self) -> None:
        bounds = {
            "memory": (1 << 16, 1 << 40),
            "lifetime": (1, 86_400),
            "linger": (0, 86_400),
            "repost_wait": (0, 86_400),
            "max_media": (1, 1 << 20),
            "max_posts": (1, 1 << 20),
            "max_waiting": (1, 1 << 20),
            "max_subscriptions": (1, 1 << 10),
            "max_known": (1, 1 << 20),
        }
        for name, (low, high) in bounds.items():
            if not low <= getattr(self, name) <= high:
                raise InvalidOption(
                    "BAD_VALUE",
                    f"{name} is {getattr(self, name)!r}",
                    f"Give a value from {low:g} to {high:g}",
                )
