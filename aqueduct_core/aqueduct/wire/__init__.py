"""The bytes of Aqueduct: frames, their codec, and the grammar of their sequences.

Knows limits and encodings, and no state of any channel.
"""
