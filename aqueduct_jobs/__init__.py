"""Finished jobs of Spark, with their settings in ``conf``.

They know the formats and nothing else of the connector. ``aqueduct job NAME`` runs them, and so do
``python -m aqueduct_jobs.NAME`` and ``spark-submit jobs/NAME.py``.
"""
