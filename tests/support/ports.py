"""Ports of this host on which nobody listens."""

from __future__ import annotations

import socket


def free_port(kind: socket.SocketKind = socket.SOCK_DGRAM) -> int:
    """One of UDP that is free now, or of TCP with ``SOCK_STREAM``."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
