"""``aqueduct quicr origin|relay ADDRESS:PORT``: keep media, or pass them on."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging

from aqueduct_core.aio.quicr.server import MediaServer, serve_origin, serve_relay
from aqueduct_core.cli.console import arguments
from aqueduct_core.cli.console.certificate import add_certificate, server_tls
from aqueduct_core.cli.console.printing import Printer
from aqueduct_core.cli.running import run_interruptible
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.quicr.config import DropSettings, QuicrConfig
from aqueduct_core.quicr.relay.config import RelayConfig
from aqueduct_core.quicr.relay.media import UrlCounts
from aqueduct_core.quicr.urls import url_text

ORIGIN_EXAMPLES = [
    (
        "an origin for programs on this machine",
        "aqueduct quicr origin 127.0.0.1:4433 --self-signed",
    ),
]
RELAY_EXAMPLES = [
    (
        "a relay of it, which gets media in datagrams, and tells its readers and drops",
        "aqueduct quicr relay 127.0.0.1:4434 quicr://127.0.0.1:4433 --insecure --self-signed "
        "--datagrams -J",
    ),
]


def add(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    origin = actions.add_parser(
        "origin",
        help="keep media that are posted, for those who ask for them",
        description="Takes media from publishers, keeps their objects for two minutes and gives "
        "them to all who ask. Everybody who reaches the address may do both: the protocol knows "
        "no tokens.",
        examples=ORIGIN_EXAMPLES,
    )
    relay = actions.add_parser(
        "relay",
        help="pass media on from another origin or relay, and back",
        description="Gets each media that a client asks for from the upstream, once for all "
        "clients, and posts there what clients post here. The upstream is dialled when it is "
        "needed, and again when it was lost.",
        examples=RELAY_EXAMPLES,
    )
    for parser in (origin, relay):
        parser.add_argument("address", metavar="ADDRESS:PORT", help="port 0 is any free one")
        _add_common(parser)
        add_certificate(parser)
        # nobody else hears of an upstream that is not there, or of peers that break the protocol
        parser.set_defaults(run=run, upstream=None, log_level=logging.WARNING)
    relay.add_argument("upstream", metavar="quicr://HOST:PORT", help="of the upstream")
    relay.add_argument(
        "--datagrams",
        action="store_true",
        help="get and post media upstream in datagrams (default: on streams)",
    )
    arguments.add_trust(relay, token=False)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-J",
        dest="json",
        action="store_true",
        help="print a JSON line for each media that has changed, every --interval",
    )
    parser.add_argument(
        "--interval",
        type=arguments.duration,
        default=1.0,
        metavar="1s",
        help="between two such lines of one media (default: 1s)",
    )
    parser.add_argument(
        "--memory",
        type=arguments.memory,
        default=RelayConfig().memory,
        metavar="SIZE",
        help="of all that is kept, such as 64m (default: 256m); the oldest objects go for new "
        "ones, and a post of an object larger than that is cancelled",
    )
    parser.add_argument(
        "--keep",
        type=arguments.duration,
        default=RelayConfig().lifetime,
        metavar="2m",
        help="how long an object is kept (default: 2m)",
    )
    parser.add_argument(
        "--flags-reading",
        choices=["low", "high"],
        default="low",
        help="which flags say that an object may be dropped: those with the lowest bit, as the "
        "document has it (default), or those from 0x80 on, as the prototype does",
    )
    parser.add_argument(
        "--drop-after",
        type=arguments.duration,
        default=DropSettings().threshold,
        metavar="100ms",
        help="drop what may be dropped when media waits longer for its path (default: 100ms)",
    )
    parser.add_argument(
        "--drop-interval",
        type=arguments.duration,
        default=DropSettings().interval,
        metavar="50ms",
        help="between two changes of what is dropped (default: 50ms)",
    )
    parser.add_argument(
        "--no-drop", action="store_true", help="never drop anything, however late it gets"
    )


def run(options: argparse.Namespace) -> int:
    where = arguments.listen_address(options.address)
    return run_interruptible(_serve(options, where))


async def _serve(options: argparse.Namespace, where: HostPort) -> int:
    dropping = DropSettings(options.flags_reading, options.drop_after, options.drop_interval)
    config = QuicrConfig(dropping=None if options.no_drop else dropping)
    tls = server_tls(options, where)
    keeping = RelayConfig(
        memory=options.memory,
        lifetime=options.keep,
        upstream_datagram=options.upstream is not None and options.datagrams,
    )
    if options.upstream is None:
        opening = serve_origin(where.host, where.port, tls=tls, config=config, keeping=keeping)
    else:
        opening = serve_relay(
            where.host,
            where.port,
            options.upstream,
            tls=tls,
            upstream_tls=arguments.client_tls(options),
            config=config,
            keeping=keeping,
        )
    async with Printer() as printer, opening as server:
        notice = f"listening on {HostPort(*server.address)}\n"
        if options.self_signed:
            notice += f"fingerprint {server.fingerprint}\n"
        printer.errors.write(notice.encode())
        await _tell(options, server, printer)
    return 0


async def _tell(options: argparse.Namespace, server: MediaServer, printer: Printer) -> None:
    """Until the verb is interrupted."""
    told: dict[bytes, UrlCounts] = {}
    while True:
        await asyncio.sleep(options.interval)
        counts = {each.url: each for each in server.counts()}
        for url in told.keys() - counts.keys():
            await _line(options, printer, told[url], gone=True)
        for url, each in counts.items():
            if told.get(url) != each:
                await _line(options, printer, each, gone=False)
        told = counts


async def _line(
    options: argparse.Namespace, printer: Printer, counts: UrlCounts, *, gone: bool
) -> None:
    await printer.room()
    row = {"type": "media", **counts._asdict(), "url": url_text(counts.url), "gone": gone}
    if options.json:
        printer.out.write(json.dumps(row).encode() + b"\n")
        return
    state = "gone" if gone else f"{counts.readers} readers, {counts.posts} publishers"
    lost = counts.given_up + counts.missed + counts.dropped
    printer.errors.write(
        f"# {url_text(counts.url)}: {state}, {counts.objects} objects, {counts.bytes} bytes, "
        f"{lost} lost or dropped\n".encode()
    )
