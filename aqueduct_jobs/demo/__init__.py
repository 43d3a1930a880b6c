"""``aqueduct demo``: a producer that counts, an intake, a query, and whether all of it arrived."""
