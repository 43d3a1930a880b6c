"""Connections of an intake, whatever their protocol: who may come, who is dialled and when again,
how a connection begins and ends, and that only what is durable is acked. May not look into
messages.
"""
