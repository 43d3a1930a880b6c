"""Intakes as a query sees them: launched, found, adopted, leased, and asked.

Says what there is; what a batch takes of it is planned elsewhere.
"""
