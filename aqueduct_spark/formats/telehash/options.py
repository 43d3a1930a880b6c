"""The options of format ``telehash``: its own ones, and with those of every format its table, the
source of docs/telehash-options.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from aqueduct_core.intake.settings.service import Limits
from aqueduct_core.intake.telehash.channels import (
    MAX_TYPES,
    SCHEMES,
    CarrierName,
    ChannelIntake,
    check_type,
)
from aqueduct_core.primitives.settings import settings_of
from aqueduct_core.telehash.hashnames import hashname_of
from aqueduct_spark.options import values
from aqueduct_spark.options.read_specs import READ_SPECS
from aqueduct_spark.options.refusals import bad_value, conflict, missing
from aqueduct_spark.options.source_specs import SOURCE_SPECS, limit_specs
from aqueduct_spark.options.spec import LAUNCHED, READ, WRITE, OptionSpec, fitted
from aqueduct_spark.options.table import OptionTable, behind
from aqueduct_spark.options.values import Endpoint
from aqueduct_spark.options.write_specs import WRITE_SPECS

PLAIN = frozenset({"udp"})
"""Schemes without encryption."""

DEFAULT_WINDOW = 32
"""Of a write: packets of one channel that telehash-c takes; telehash-js takes 50, we 100."""

CONTROL_COLUMNS = ("js", "type", "end")
"""Columns of a frame to be written that say what goes beside the body of a packet, and where."""


@dataclass(frozen=True, slots=True)
class LineOptions:
    """How lines come about, those that are dialled as those that are accepted.

    ``hashname`` is ours and ``peer_hashname`` that of the peer, where they are not known by
    certificates (P3).
    """

    carrier: CarrierName = "quic"
    trusted: bool = False
    hashname: str | None = None
    peer_hashname: str | None = None

    @classmethod
    def of(cls, found: Mapping[str, Any], at: Endpoint | None, *, dials: bool) -> LineOptions:
        """``at``: whom to dial, or where to listen.

        Raises:
            InvalidOption: CONFLICT for plain UDP beyond this machine without ``udp.trusted``, or
                for that option without plain UDP; MISSING where one hashname is of no use.
        """
        own, peer = found["hashname"], found["peerHashname"]
        if at is None:
            return cls()
        carrier, trusted = SCHEMES[at.scheme], bool(found["udp.trusted"])
        if carrier == "quic" and trusted:
            raise conflict(
                "udp.trusted=true and telehash://, which goes over QUIC and is encrypted",
                "Remove 'udp.trusted'",
            )
        beyond = next((each for each in at.addresses if not each.loopback), None)
        if carrier == "udp" and beyond is not None and not trusted:
            raise conflict(
                f"udp:// and the address {beyond}: over plain UDP nothing is encrypted, and "
                "whoever is on the way reads it and writes in it",
                "Use telehash://, or set udp.trusted=true where only those reach that network whom "
                "you trust",
            )
        certified = carrier == "quic" and not dials
        if (own is None and not certified and peer is not None) or (own and peer is None):
            absent, given = ("peerHashname", "hashname") if own else ("hashname", "peerHashname")
            raise missing(absent, f"'{given}' says nothing without it: the two are compared")
        if own is not None and own == peer:
            raise bad_value("peerHashname", peer, "another one than 'hashname'")
        return cls(carrier, trusted, own, peer)


@dataclass(frozen=True, slots=True)
class TelehashRead:
    """``types`` of channels become rows, all of them where none are named. At an endpoint one
    channel of each is opened, and what the peer sends on it becomes rows."""

    types: tuple[str, ...]
    channels: ChannelIntake
    line: LineOptions

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> TelehashRead:
        types: tuple[str, ...] = found["type"] or ()
        dials = found["endpoint"] is not None
        if dials and not types:
            raise missing("type", "of the channels to open at the endpoint, such as _chat")
        if len(types) > MAX_TYPES:
            raise bad_value("type", f"{len(types)} types", f"at most {MAX_TYPES} of them")
        line = LineOptions.of(found, found["endpoint"] or found["listen"], dials=dials)
        channels = ChannelIntake.of_options(found)
        _check_pace(channels, found["minOffsetsPerTrigger"], found["maxTriggerDelay"])
        return cls(types, channels, line)


@dataclass(frozen=True, slots=True)
class TelehashWrite:
    """``type`` is that of rows without a column of their own. Times in seconds."""

    type: str | None
    keep_channel: bool
    window: int
    channel_timeout: float
    line: LineOptions

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> TelehashWrite:
        types: tuple[str, ...] | None = found["type"]
        if types is not None and len(types) != 1:
            raise bad_value("type", ",".join(types), "one type; column type has others")
        if found["payloadFormat"] == "arrow":
            raise bad_value("payloadFormat", "arrow", "binary, text or json: a row is a packet")
        return cls(
            None if types is None else types[0],
            found["keepChannel"],
            found["window"] or DEFAULT_WINDOW,
            found["channelTimeout"],
            LineOptions.of(found, found["endpoint"], dials=True),
        )


def _check_pace(channels: ChannelIntake, least: int | None, delay: float | None) -> None:
    """Raises InvalidOption: CONFLICT: acks wait for batches that wait for longer than peers do."""
    timeout = channels.channel_timeout
    if channels.ack_level == "committed" and least is not None and (delay or 0.0) >= timeout:
        raise conflict(
            f"ackLevel=committed, and micro-batches that wait up to {delay:g} s (maxTriggerDelay) "
            f"for minOffsetsPerTrigger={least}: peers give up after {timeout:g} s without an ack",
            "Set ackLevel=stored, lower 'maxTriggerDelay', or raise 'channelTimeout' here where "
            "peers wait longer",
        )


def _types(value: str) -> tuple[str, ...]:
    found = tuple(map(check_type, values.names(value)))
    if len(set(found)) != len(found):
        raise ValueError("types that differ from each other")
    return found


def _hashname(value: str) -> str:
    try:
        return hashname_of(value.strip())
    except ValueError:
        raise ValueError("a hashname, 64 hexadecimal digits") from None


_TYPES: tuple[OptionSpec, ...] = (
    OptionSpec(
        "type",
        _types,
        None,
        READ | WRITE,
        READ | WRITE,
        "Types of the channels to read, with commas between them; a channel of another type is "
        "refused. With listen all by default; with endpoint one channel of each is opened there. "
        "Of a write the one type of its channels, where rows have no column type.",
        ways=LAUNCHED,
    ),
)
_CHANNELS: tuple[OptionSpec, ...] = (
    *(OptionSpec.of(each, READ) for each in settings_of(ChannelIntake) if each.name == "ackLevel"),
    OptionSpec(
        "window",
        values.integer(1, 100),
        None,
        READ | WRITE,
        READ | WRITE,
        "Packets of one channel without an ack. A read takes so many, 100 by default, and those "
        "beyond are dropped and come again; a write sends so many, 32 by default, and waits.",
        ways=LAUNCHED,
    ),
    OptionSpec(
        "channelTimeout",
        values.duration_within("100ms", "1h"),
        "10s",
        READ | WRITE,
        READ | WRITE,
        "A channel is given up on which the peer acks nothing for so long. A read takes it for how "
        "long a peer waits for an ack as well.",
        ways=LAUNCHED,
    ),
)
_LINES: tuple[OptionSpec, ...] = (
    OptionSpec(
        "udp.trusted",
        values.boolean,
        "false",
        READ | WRITE,
        READ | WRITE,
        "Allow udp:// beyond this machine. Nothing is encrypted there and nobody is verified: for "
        "networks that only those reach whom you trust.",
        ways=LAUNCHED,
    ),
    OptionSpec(
        "hashname",
        _hashname,
        None,
        READ | WRITE,
        READ | WRITE,
        "Our hashname, where the peer goes by one; with peerHashname, or, of a listener over QUIC, "
        "the SHA-256 of its certificate by default. The lower one of the two has the channels "
        "with even numbers; where they are not known, who dials has the odd ones.",
        ways=LAUNCHED,
    ),
    OptionSpec(
        "peerHashname",
        _hashname,
        None,
        READ | WRITE,
        READ | WRITE,
        "The hashname of the peer, where both sides go by these.",
        ways=LAUNCHED,
    ),
)
_KEEPING: tuple[OptionSpec, ...] = (
    OptionSpec(
        "keepChannel",
        values.boolean,
        "false",
        WRITE,
        WRITE,
        "Rows of each type go on one channel of each connection to the peer, for as long as that "
        "lasts; it ends by column end alone. false: each partition of each batch has a channel of "
        "its own, which ends with its last row.",
    ),
)

_UNUSED = {
    "maxInFlightBytes": "at most 'window' packets of a channel are on their way",
    "maxMessageBytes": "a packet holds what fits a datagram: there are no fragments",
    "earlyData": "whoever overheard the first packet of a channel could send it again",
    "finish": "a channel ends with the rows of its partition, or lasts with 'keepChannel'",
    "maxLossRatio": "every row goes on a reliable channel",
}
"""Options of other formats, and why they have no meaning here."""


def _own(spec: OptionSpec) -> OptionSpec:
    """Shared rows that say something else here."""
    match spec.name:
        case "listen":
            return replace(
                spec,
                parse=values.listening(*SCHEMES),
                doc="[telehash://]address:port to accept QUIC connections on, or "
                "udp://address:port for plain UDP; intake i listens on port + i, port 0 lets the "
                "system choose. Kept with the spool, as are tls.selfSigned and, with endpoint, "
                "tls.insecure: later queries on it give the same.",
            )
        case "idempotence":
            return replace(
                spec,
                parse=values.choice("auto", "none"),
                doc="auto puts q (writerId), e (batch), p (partition) and i (row) into the JSON of "
                "each packet, so that a receiver knows a row that comes again, as an intake does; "
                "none adds nothing, and column js goes as it is.",
            )
        case "channels" | "channelsPattern":
            return replace(spec, doc=spec.doc.replace("channel names", "types of channels"))
        case "producers":
            return replace(spec, doc="Restrict to these peers.")
    return spec


TELEHASH_OPTIONS = OptionTable(
    "telehash",
    tuple(SCHEMES),
    fitted(
        map(
            _own,
            (
                *behind("spool", SOURCE_SPECS, (*_TYPES, *_CHANNELS, *_LINES)),
                *limit_specs(Limits),
                *READ_SPECS,
                *_KEEPING,
                *WRITE_SPECS,
            ),
        ),
        unused=_UNUSED,
        no_token="the protocol has no place for a token: let only those reach the port who may",
        tokenless="A line has no token.",
    ),
    own_read=TelehashRead.of,
    own_write=TelehashWrite.of,
    page="docs/telehash-options.md",
    plain=PLAIN,
)
