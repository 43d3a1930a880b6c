"""The data source and sink of Spark.

    {model, options} < planning < intakes < {read, write} < datasource

What runs in the driver plans and never sees a payload; what runs in tasks never plans.
"""
