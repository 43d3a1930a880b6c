"""Rows as packets on channels that the task opens at a peer."""
