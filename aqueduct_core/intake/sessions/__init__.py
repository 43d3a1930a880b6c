"""Connections of an intake, whatever their protocol: who may come, how a connection begins and
ends, and that only what is durable is acked. May not look into messages.
"""
