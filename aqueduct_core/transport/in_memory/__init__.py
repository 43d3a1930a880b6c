"""Links and networks in memory, on a virtual clock, for tests of engines and of programs on top.

They ship so that users can test against them. Nothing here opens a socket or reads a clock.
"""
