# Spark with Aqueduct, for driver and executors: docker build -f spark.Dockerfile -t spark-aqueduct .
# with --build-arg SPARK=YOUR-PYSPARK-IMAGE.
# SPARK is an image of Spark 4.2 or newer with Python 3.11 or newer.
ARG SPARK
FROM ${SPARK}
USER root
RUN python3 -m pip install --no-cache-dir aqueduct-spark && aqueduct compile-pyspark
USER spark
