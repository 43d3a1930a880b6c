"""Aqueduct's adapter: its settings, sessions, roles, subscriptions, answers, receipts and rows.

Nothing outside of this room imports it, but who reads its rows or writes its settings: an intake
finds it by its name.
"""
