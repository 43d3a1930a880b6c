"""Reliable channels of Telehash v2 (ALPN ``telehash-v2``): packets with a head of JSON and a raw
body, in channels that are ordered and acked by the application, or unreliable.

An engine without a socket or a clock (`engine`), as `aqueduct_core.engine` says; the bytes of
packets are in `wire`. A *line* is one connection of the carrier: all channels begin anew with it.
"""
