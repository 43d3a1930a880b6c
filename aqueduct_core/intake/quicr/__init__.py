"""QUICR at an intake: media that publishers post, or that are requested of an origin or a relay."""
