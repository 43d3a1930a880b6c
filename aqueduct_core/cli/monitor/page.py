"""``aqueduct page PLACE…``: the page of all intakes of a query, on this machine."""

from __future__ import annotations

import argparse
import signal
import threading

from aqueduct_core.cli.console.arguments import listen_address
from aqueduct_core.cli.monitor.watched import WatchedIntakes, add_places
from aqueduct_core.errors import InvalidOption

TERMINATED = 143


EXAMPLES = [
    (
        "all intakes of a query",
        "aqueduct page spool/orders",
    ),
    (
        "an intake on another host",
        "aqueduct page intake:4434 --ca intake-ca.pem --token-file intake-token",
    ),
]


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "page",
        help="serve a live page of one or several intakes",
        description="Serves a page about all intakes that are named, for browsers on this machine, "
        "until Ctrl-C. An intake has the same page at http.listen. PLACE is the directory of an "
        "intake, the spool option of a query with all its intakes, or HOST:PORT.",
        examples=EXAMPLES,
    )
    add_places(parser)
    parser.add_argument(
        "--http",
        default="127.0.0.1:8099",
        metavar="ADDRESS:PORT",
        help="where to serve it, on loopback; port 0 is any (default: 127.0.0.1:8099)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from aqueduct_core.monitoring.access import PageAccess
    from aqueduct_core.monitoring.http_server import HttpServer
    from aqueduct_core.monitoring.site import Site

    where = listen_address(options.http)
    if not where.loopback:
        raise InvalidOption(
            "BAD_VALUE",
            f"--http is {where}, and this page asks nobody for a token",
            "Serve it on 127.0.0.1 and reach it through ssh -L, or set http.listen at the intakes",
        )
    terminated = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: terminated.set())
    with WatchedIntakes.of(options) as watched:
        site = Site(watched.observe, PageAccess(None), alone=False)
        server = HttpServer(where, site.respond)
        print(f"http://{server.address}", flush=True)
        try:
            terminated.wait()
        finally:
            server.close()
    return TERMINATED
