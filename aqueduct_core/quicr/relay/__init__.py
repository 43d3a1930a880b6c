"""Relays and origins: media goes from those who post it to those who ask for it.

Pure, over engines of any number of connections: no socket, no clock, no event loop.
"""
