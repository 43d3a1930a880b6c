"""Publishers, relays, an origin and readers on a virtual clock, drawn from a seed: what a reader
has is what was published, byte for byte, or a hole that was told."""
