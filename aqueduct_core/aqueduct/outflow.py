"""From the application's messages to the wire: checks, numbers, attachments (AQ-SEND-1…14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from aqueduct_core.aqueduct.chanid import Side
from aqueduct_core.aqueduct.channels import Channels
from aqueduct_core.aqueduct.config import Config, Mode
from aqueduct_core.aqueduct.faults import BadArgument, TooLarge
from aqueduct_core.aqueduct.news import Attachment, Headers, Rerouted
from aqueduct_core.aqueduct.sender import SenderHalf
from aqueduct_core.aqueduct.wiring import Wiring


@dataclass(frozen=True, slots=True)
class Attach:
    """A new channel to carry along. ``sends``: the half that stays here is the sender."""

    sends: bool
    oneshot: bool = False
    headers: Headers = ()


class Sent(NamedTuple):
    """What became of a message: its number and number space, and the channels it carries.

    ``number`` None: it waits in a queue (only with flow control).
    """

    number: int | None
    reliable: bool
    attached: tuple[int, ...]


class Outflow:
    """``messages`` counts what was sent."""

    def __init__(self, side: Side, channels: Channels, wiring: Wiring) -> None:
        self._side = side
        self._channels = channels
        self._wiring = wiring
        self.messages = 0

    def send(
        self,
        half: SenderHalf,
        payload: bytes,
        mode: Mode,
        headers: Headers,
        attach: Sequence[Attach],
        now: float,
    ) -> Sent:
        """Every check comes before the first change."""
        config = self._wiring.config
        half.check_send(mode, 1)
        if headers:
            check_headers(headers, config)
        self._check_size(len(payload))
        if not attach:
            number, reliable = half.send(payload, headers, (), mode, now)
            self.messages += 1
            return Sent(number, reliable, ())
        if len(attach) > config.max_attachments:
            raise TooLarge(f"{len(attach)} attachments")
        for each in attach:
            check_headers(each.headers, config)
        self._channels.check_room(len(attach))
        kinds = [(self._side if each.sends else self._side.other, each.oneshot) for each in attach]
        ids = self._channels.upcoming(kinds)
        attachments = tuple(map(Attachment, ids, (each.headers for each in attach)))
        number, reliable = half.send(payload, headers, attachments, mode, now)
        self.messages += 1
        return Sent(number, reliable, self._channels.attach(half.channel, reliable, number, kinds))

    def send_many(
        self, half: SenderHalf, payloads: Sequence[bytes], mode: Mode, now: float
    ) -> tuple[int, int]:
        half.check_send(mode, len(payloads))
        longest = max(map(len, payloads), default=0)
        self._check_size(longest)
        if mode is Mode.UNRELIABLE and self._wiring.datagram_size:
            room = half.datagram_room(len(payloads))
            if longest > room:
                raise TooLarge(f"a payload of {longest} bytes, a datagram has room for {room}")
        self.messages += len(payloads)
        return half.send_many(payloads, mode, now)

    def refused(self, token: int) -> None:
        """The transport refused a datagram as too large (AQ-SEND-5)."""
        message = self._wiring.refusable.refused(token)
        if message is None:
            return
        half = self._channels.halves.get(message.channel)
        if not isinstance(half, SenderHalf):
            return
        number = half.send_again(message)
        if number is not None:
            self._channels.lineage.renumbered(message.channel, message.number, number)
            self._wiring.bulletin.tell(Rerouted(message.channel, message.number, number))

    def _check_size(self, size: int) -> None:
        limit = self._wiring.config.max_payload_bytes
        if size > limit:
            raise TooLarge(f"a payload of {size} bytes, at most {limit}")


def check_headers(headers: Headers, config: Config) -> None:
    """Refuse what our own peers would refuse; our keys are non-empty ASCII (AQ-HDRDATA-3).

    Raises:
        BadArgument: a key.
        TooLarge: too many pairs or bytes.
    """
    size = 0
    for key, value in headers:
        if not key or not key.isascii():
            raise BadArgument("a header key must be non-empty ASCII")
        size += len(key) + len(value) + 10  # two lengths of at most five bytes
    if size > config.max_headers_bytes or len(headers) > config.max_header_pairs:
        raise TooLarge(f"{len(headers)} headers of {size} bytes")
