"""Rows as media that are posted to an origin, a relay or an intake."""
