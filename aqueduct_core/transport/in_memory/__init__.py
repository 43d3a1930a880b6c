"""The fake that ships beside the port: links in memory, on a clock that a test turns.

The same contract as QUIC's, with delay, loss and rate; no socket, no certificate.
"""
