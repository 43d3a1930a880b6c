"""What both verbs of Telehash are told, and how they show a packet."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from aqueduct_core.aio.telehash.channel import ReceivedPacket, TelehashChannel
from aqueduct_core.cli.console import arguments
from aqueduct_core.cli.console.output import json_value
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.transport.plain_udp.link import PlainSettings

ENDPOINT = "telehash://HOST:PORT"
"""How it is called in the usage; ``udp://HOST:PORT`` is as good."""
_DEFAULTS = TelehashConfig()


def add_line(parser: argparse.ArgumentParser) -> None:
    """Bounds and times of the protocol, the carrier, and who is who."""
    parser.add_argument(
        "--window",
        type=arguments.count,
        default=_DEFAULTS.window,
        metavar="N",
        help=f"packets of a channel under way, from 1 to 100 (default: {_DEFAULTS.window})",
    )
    parser.add_argument(
        "--channel-timeout",
        type=arguments.duration,
        default=_DEFAULTS.channel_timeout,
        metavar="10s",
        help="give a channel up on which nothing is acknowledged for so long (default: 10s)",
    )
    parser.add_argument(
        "--udp-trusted",
        action="store_true",
        help="plain UDP may leave this machine: the network sees to encryption and authentication",
    )
    parser.add_argument(
        "--hashname",
        metavar="HEX",
        help="of this side, where the other one is told the same by --peer-hashname",
    )
    parser.add_argument("--peer-hashname", metavar="HEX", help="of the other side, the same way")


def line_options(options: argparse.Namespace) -> dict[str, Any]:
    """What `connect` and `listen` are told of it. Raises: InvalidOption.BAD_VALUE."""
    return {
        "config": TelehashConfig(window=options.window, channel_timeout=options.channel_timeout),
        "udp": PlainSettings(trusted=options.udp_trusted),
        "hashname": options.hashname,
        "peer_hashname": options.peer_hashname,
    }


def packet_row(channel: TelehashChannel, packet: ReceivedPacket) -> Mapping[str, Any]:
    """For a JSON line."""
    return {
        "type": "packet",
        "peer": channel.peer_name,
        "channel": channel.number,
        "channelType": channel.type,
        "seq": packet.seq,
        "js": packet.js,
        "value": json_value(packet.body),
        "end": packet.end,
    }


def is_bare_end(packet: ReceivedPacket) -> bool:
    """It has no content and says that there is no more."""
    return packet.end and not packet.body and packet.js_text is None
