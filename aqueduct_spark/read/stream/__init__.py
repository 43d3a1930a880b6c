"""Micro-batches: the planner in the driver's worker, and the reader that Spark calls.

No payload passes here, and nothing rests on ``stop`` being called.
"""
