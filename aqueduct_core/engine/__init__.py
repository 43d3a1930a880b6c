"""The contract between a protocol engine and whatever drives it, the same for every protocol.

Inputs, actions, the verbs of an engine, and batches of messages, as values. No protocol is known
here, and nothing that reads a clock or a socket.
"""
