"""Bounded reads: a range of what is stored, or all until channels have finished.

Owns no cursor, and leaves nothing behind.
"""
