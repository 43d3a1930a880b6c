"""Telehash at an intake: packets of channels that peers open to us, or that we open to them."""
