# Spark with Aqueduct, for driver and executors: docker build -f spark.Dockerfile -t spark-aqueduct .
# with --build-arg SPARK=YOUR-PYSPARK-IMAGE.
# SPARK is an image of Spark 4.2 or newer with Python 3.11 or newer.
ARG SPARK
FROM ${SPARK}
USER root
# Spark is there: another one, perhaps of another version, is not to come with the package.
RUN python3 -m pip install --no-cache-dir --no-deps aqueduct-spark \
 && python3 -m pip install --no-cache-dir "aioquic>=1.7,<1.8" "certifi>=2024.7.4" "cryptography>=43" "msgspec>=0.19" "numpy>=1.26" \
      "prometheus-client>=0.21" "psutil>=6" "pyarrow>=19" "rich>=13.9" "shtab>=1.7" \
 && SPARK_HOME=/opt/spark aqueduct compile-pyspark
USER spark
