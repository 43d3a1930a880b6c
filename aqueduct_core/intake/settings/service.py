"""How an intake serves, whatever its source: settings that a query gives as options, a standalone
intake as keys of its file. Light to import: the driver reads them when it looks up a format."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.primitives.settings import Section, duration, number, plain, size


class Limits(Section, frozen=True, kw_only=True):
    """What hostile or many peers may use of an intake."""

    prefix: ClassVar[str] = "limits."

    connections: Annotated[int, number(1, 1 << 20, "Connections of one intake at once.")] = 4096
    connections_per_address: Annotated[
        int, number(1, 1 << 20, "Connections of one intake at once from one IP address.")
    ] = 1024
    handshakes: Annotated[
        int, number(1, 1 << 20, "Connections at once whose handshake is not complete.")
    ] = 512
    handshakes_per_network: Annotated[
        int,
        number(
            1,
            1 << 20,
            "The same of one IPv4 address or /64 of IPv6 whose clients have not proved their "
            "address.",
        ),
    ] = 128
    retry: Annotated[
        Literal["auto", "always", "never"],
        plain(
            "Whether clients prove their address first, for a round trip: auto asks under pressure."
        ),
    ] = "auto"
    memory: Annotated[
        int,
        size(
            "8m",
            "1t",
            "Memory of all connections of one intake. Those that have proven least and hold most "
            "are closed for it; a producer that waits for its acks is held back first.",
        ),
    ] = 512 << 20
    connection_share: Annotated[
        float,
        number(
            0.01,
            1.0,
            "The share of a busy intake's time that one connection has while others wait.",
        ),
    ] = 0.5
    handshake_timeout: Annotated[
        float,
        duration(
            "100ms",
            "10m",
            "The longest wait for a peer to complete its handshake and send its headers.",
        ),
    ] = msgspec.field(name="handshakeSeconds", default=10.0)


class HttpSettings(Section, frozen=True, kw_only=True):
    """Where an intake serves its page, metrics and health over HTTP.

    ``listen`` is a TCP ``host:port``, port 0 for any; None: nowhere. ``token_file`` holds tokens,
    one a line, of those who may look; it is read again when it changes.
    """

    prefix: ClassVar[str] = "http."

    listen: str | None = None
    token_file: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.listen is None:
            if self.token_file is not None:
                raise InvalidOption(
                    "MISSING", "http.tokenFile is set without http.listen", "Set http.listen, too"
                )
            return
        try:
            HostPort.parse(self.listen)
        except ValueError as error:
            raise InvalidOption(
                "BAD_VALUE", f"option http.listen is {self.listen!r}", f"Give it as {error}"
            ) from None

    def in_force(self) -> dict[str, str | None]:
        """By option."""
        return {"http.listen": self.listen, "http.tokenFile": self.token_file}


class ServiceSettings(Section, frozen=True, kw_only=True):
    """What is kept how long, and who may take how much. Each of them is an option of a read."""

    spool_max_bytes: Annotated[
        int,
        size(
            "1m",
            "1024t",
            "Size of the spool of each intake; when full, producers wait, and nothing that a query "
            "still needs is deleted.",
        ),
    ] = 10 << 30
    retention: Annotated[
        float,
        duration(
            "0s",
            None,
            "For how long messages that every query is done with are kept, from when their segment "
            "was closed, while the spool is not full.",
        ),
    ] = 0.0
    group_commit: Annotated[
        float,
        duration(
            "0ms",
            "10s",
            "The longest wait before messages are made durable together and acked.",
        ),
    ] = 0.02
    transport: Annotated[
        Literal["aioquic", "qh3"],
        plain("The QUIC library: aioquic is the only one; qh3 is refused for what it lacks."),
    ] = "aioquic"
    early_data: Annotated[
        bool,
        plain(
            "Resume TLS sessions, and take or send what comes before a handshake is complete "
            "(0-RTT). A listener gives sessions, each for one use; a read that dials keeps them in "
            "the spool of its intake, a write in sessionDirectory."
        ),
    ] = False
    max_message_bytes: Annotated[int, size("1b", "1g", "The largest message.")] = 16 << 20
    max_datagram_bytes: Annotated[
        int,
        size(
            "1200b",
            "9000b",
            "The largest UDP payload that is sent. A connection begins with 1200 bytes and finds "
            "out what its path carries (path MTU discovery); 1200b: it does not try.",
        ),
    ] = 9_000
    log_format: Annotated[
        Literal["text", "json"],
        plain("Lines of the log of an intake: text, or a JSON object each."),
    ] = "text"
    limits: Limits = Limits()
    http: HttpSettings = HttpSettings()
