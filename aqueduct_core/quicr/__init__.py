"""QUICR in prototype (ALPN ``quicr-h20``): media objects over QUIC, from publishers through relays.

An engine without a socket or a clock (`engine`), as `aqueduct_core.engine` says; what any version
of the protocol has of media is in `media`, the bytes of this one are in `wire`.
"""
