"""The bytes of ``quicr-h20``: messages of control streams, and datagrams."""
