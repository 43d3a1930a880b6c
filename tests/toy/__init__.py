"""A third protocol, as small as one can be, that proves the seams: nothing outside knows of it."""
