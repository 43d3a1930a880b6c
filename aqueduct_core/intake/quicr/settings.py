"""What an intake of QUICR is configured with: how it takes media in, and which it asks for where
it dials."""

from __future__ import annotations

from typing import Any, ClassVar

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.quicr.media import MAX_URLS, MediaIntake
from aqueduct_core.intake.settings.dial import ConnectSettings, check_unique
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.primitives.settings import Section
from aqueduct_core.quicr.urls import url_bytes


class QuicrConnect(ConnectSettings, frozen=True):
    """Origins or relays that are asked for media.

    Args:
        urls: of these, as `urls.url_text` writes them; or
        subscribe_prefix: of those whose URLs begin so, which there are and which come. One of the
            two.
    """

    scheme: ClassVar[str] = "quicr"

    urls: tuple[str, ...] = ()
    subscribe_prefix: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.token is not None or self.token_file is not None:
            raise no_tokens("auth.tokenFile")
        if bool(self.urls) is (self.subscribe_prefix is not None):
            raise InvalidOption(
                "MISSING" if not self.urls else "CONFLICT",
                "an intake asks for media by their URLs or by a prefix of these, and "
                + ("neither is set" if not self.urls else "both are set"),
                "Set url, or subscribePrefix",
            )
        check_unique("url", self.urls)
        if len(self.urls) > MAX_URLS:
            raise InvalidOption(
                "BAD_VALUE",
                f"{len(self.urls)} media are to be asked for",
                f"Give 1 to {MAX_URLS} URLs, or spread them over several intakes",
            )
        for option, text in (("url", each) for each in self.urls):
            _checked(option, text)
        if self.subscribe_prefix is not None:
            _checked("subscribePrefix", self.subscribe_prefix)

    def in_force(self) -> dict[str, Any]:
        asked = {
            "url": ",".join(sorted(self.urls)) or None,
            "subscribePrefix": self.subscribe_prefix,
        }
        return super().in_force() | asked


class QuicrIntake(IntakeSettings, frozen=True, kw_only=True):
    """All settings of an intake of QUICR."""

    media: MediaIntake = MediaIntake()
    connect: QuicrConnect | None = None
    protocol: str = "quicr"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.auth.required:
            raise no_tokens("auth.tokenEnv" if self.auth.token_file is None else "auth.tokenFile")

    @property
    def own_sections(self) -> tuple[Section, ...]:
        return (self.media,)


def no_tokens(option: str) -> InvalidOption:
    """The refusal of a bearer token."""
    return InvalidOption(
        "CONFLICT",
        f"{option} is set, and the protocol QUICR has no place for a token",
        f"Remove {option}; let only those reach the port who may use it",
    )


def _checked(option: str, text: str) -> None:
    try:
        url_bytes(text)
    except ValueError as error:
        raise InvalidOption("BAD_VALUE", f"option {option} is {text!r}", f"Give {error}") from None
