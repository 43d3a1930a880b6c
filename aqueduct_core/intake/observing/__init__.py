"""What goes on in an intake, counted where it passes: for status, metrics, page and terminal.

Knows no protocol, decides nothing, and holds up nobody.
"""
