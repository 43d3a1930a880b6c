"""A carrier without QUIC: the packets of an engine are UDP datagrams, and nothing else is sent.

There is no encryption and no handshake, so an address is as good as whoever writes it: for loopback
and networks that are trusted, and for protocols that see to both themselves. A connection is found
by the address of its peer.
"""
