"""What planners may ask of an intake: status, cursors and their leases, commits, damage, the end.

Answers from the spool and the state of the process; never touches a connection.
"""
