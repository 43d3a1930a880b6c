"""The rows and the status of a spool over Arrow Flight, for those who hold its credentials.

Knows no protocol, and nothing of Spark.
"""
