"""Certificates and trust of both sides, and how those for development are made.

Reads files that it is told of; decides nothing about who is let in.
"""
