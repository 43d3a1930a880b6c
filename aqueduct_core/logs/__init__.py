"""Lines of log for people and machines, with a bound on how many and how long.

Never holds up who logs, and never shows what a peer wrote as anything but text.
"""
