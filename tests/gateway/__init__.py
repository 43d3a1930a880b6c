"""Spools on object storage against a real server: `make objects`."""
