"""The intake: takes messages in, stores them before they are acked, and serves what is stored.

Neutral of protocols but for the rooms that are named after one: these alone may import an engine.
`adapter` is the seam between the two.
"""
