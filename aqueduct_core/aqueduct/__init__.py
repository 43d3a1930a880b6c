"""The engine of Aqueduct: one end of a connection, without input or output of its own (sans-IO).

``engine`` is the entrance. Time is an argument, bytes come and go as inputs and actions of the
contract (``aqueduct_core.engine``); no socket, clock, event loop or source of chance is imported.
"""
