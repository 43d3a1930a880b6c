"""The data source and sink of Spark.

    {model, options} < planning < intakes < {read, write} < datasource

What runs in the driver plans and never sees a payload; what runs in tasks never plans. Each process
of Spark that does either imports this package, and so ends quietly.
"""

from aqueduct_spark.hanging_up import end_quietly

end_quietly()
