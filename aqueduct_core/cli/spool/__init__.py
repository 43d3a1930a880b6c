"""``aqueduct spool ls|cat|verify|cursors|settings|skip DIR``: look into the spools of intakes.

DIR is the directory of one intake, or the ``spool`` of a query with ``intake-0``, … below it.
Nothing is changed, and no running intake is in the way; only ``cursors --drop`` and ``--give``,
``settings --forget`` and ``skip`` write.
"""

from __future__ import annotations

import argparse

from aqueduct_core.cli.spool import cat, cursors, ls, settings, skip, verify


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "spool",
        help="look into the durable log of intakes",
        description="Looks into the spools of intakes, whether they run or not.",
    )
    looks = parser.add_subparsers(title="what", metavar="WHAT", required=True)
    for look in (ls, cat, verify, cursors, settings, skip):
        look.add(looks)
