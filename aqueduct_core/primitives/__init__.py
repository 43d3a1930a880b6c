"""Parts that know no protocol: varints, sets of ranges, timers, small files of settings.

They import nothing of the project but its errors, and no clock, socket or event loop.
"""
