"""The data source and sink of Spark.

    {model, options} < planning < intakes < {read, write} < datasource

What runs in the driver plans and never sees a payload; what runs in tasks never plans. Each process
of Spark that does either imports this package, and so ends quietly.
"""

from aqueduct_spark.hanging_up import end_quietly
from aqueduct_spark.this_python import SparkRuns, use_this_python

__all__ = ["SparkRuns", "use_this_python"]

end_quietly()
