"""QUICR for asyncio programs: publish, request and subscribe; origins and relays."""
