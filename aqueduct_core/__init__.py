"""Aqueduct without Spark: engines, transport, asyncio API, durable log and the intake process.

    errors, escape < primitives < engine < aqueduct ‖ transport < aio;  spool < flight
    {aio, flight} < intake < cli

Nothing here imports pyspark, or anything of the connector.
"""
