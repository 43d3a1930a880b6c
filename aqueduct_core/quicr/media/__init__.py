"""Media as such: groups of objects, in fragments. Knows no bytes of any version of QUICR."""
