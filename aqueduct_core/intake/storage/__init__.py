"""From batches and events to records of the spool, group by group, and when to ack them.

Knows no protocol, no connection and no socket; calls back to who brought what (`pending`).
"""
