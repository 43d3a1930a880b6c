"""Connections, channels and producers for asyncio. What programs use of it is in ``aqueduct``."""
