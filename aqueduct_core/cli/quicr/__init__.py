"""``aqueduct quicr origin|relay|get|post|watch``: media over the QUICR protocol."""

from __future__ import annotations

import argparse

from aqueduct_core.cli.quicr import get, post, serve, watch


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "quicr",
        help="publish, relay and read media over QUICR",
        description="Media objects over the QUICR prototype protocol (ALPN quicr-h20): what "
        "publishers post is kept by an origin, for a while, and passed on by relays.",
    )
    actions = parser.add_subparsers(title="what", metavar="WHAT", required=True)
    for action in (serve, get, post, watch):
        action.add(actions)
