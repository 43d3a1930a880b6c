"""Aqueduct's adapter: its sessions, roles, subscriptions, answers, receipts and rows.

Nothing outside of this room imports it, but readers of its rows: an intake finds it by its name.
"""
