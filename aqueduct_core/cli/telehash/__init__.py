"""``aqueduct telehash send|listen``: packets on reliable channels of Telehash v2."""

from __future__ import annotations

import argparse

from aqueduct_core.cli.telehash import listen, send


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "telehash",
        help="send and take packets on channels of Telehash v2",
        description="Reliable channels of Telehash v2, over QUIC datagrams (telehash://) or, on "
        "this machine and in networks that are trusted, over plain UDP (udp://).",
    )
    actions = parser.add_subparsers(title="what", metavar="WHAT", required=True)
    for action in (send, listen):
        action.add(actions)
