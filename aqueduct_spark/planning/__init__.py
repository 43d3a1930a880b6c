"""How a micro-batch is planned: how far it goes, how it is cut, which intakes are missing.

Pure functions with tables of cases: no clock, no socket, no Spark session.
"""
