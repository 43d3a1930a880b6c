"""The format ``quicr``: media objects as rows, and rows as media."""
