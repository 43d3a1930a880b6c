"""``aqueduct top`` and ``aqueduct page``: what goes on in intakes, for people."""
