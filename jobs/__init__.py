"""Finished jobs for spark-submit, with their settings in ``conf``.

They know the formats and nothing else of the connector.
"""
