"""A connection as the options of a verb say."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.cli import arguments


@asynccontextmanager
async def dialled(options: argparse.Namespace) -> AsyncIterator[ClientConnection]:
    """A connection to ``options.url``; with ``--early-data`` it may not be accepted yet.

    Raises: why the server did not accept it, in place of the ``ConnectionLost`` of what was sent.
    """
    async with connect(
        options.url,
        tls=arguments.client_tls(options),
        token=arguments.read_token(options.token_file),
        tickets=arguments.sessions(options),
        early_data=options.early_data,
    ) as connection:
        try:
            yield connection
        except ConnectionLost:
            await connection.accepted()
            raise
