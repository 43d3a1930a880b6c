# Spark with Aqueduct, for driver and executors alike:
# docker build -f conf/docker/spark.Dockerfile --build-arg SPARK=YOUR-PYSPARK-IMAGE -t spark-aqueduct .
# SPARK is an image of Spark 4.2 or newer with Python 3.11 or newer.
ARG SPARK
FROM ${SPARK}
USER root
RUN python3 -m pip install --no-cache-dir aqueduct-spark && aqueduct compile-pyspark
USER spark
