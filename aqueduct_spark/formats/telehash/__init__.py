"""The format ``telehash``: packets of reliable channels as rows, and rows as packets."""
