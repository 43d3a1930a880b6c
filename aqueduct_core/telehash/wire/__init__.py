"""The bytes of Telehash: a packet, and what a packet of a channel has in its head."""
