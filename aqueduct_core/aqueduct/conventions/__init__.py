"""What both ends may agree on beyond the protocol, in headers and payloads: identity, receipts,
positions, and what stores a message once. Pure: builds and parses, and keeps no connection.
"""
