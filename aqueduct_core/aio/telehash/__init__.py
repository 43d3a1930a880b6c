"""Telehash for asyncio programs: lines, channels, listeners, over QUIC datagrams or plain UDP."""
