# An intake in a container: docker build -f intake.Dockerfile -t aqueduct-intake .
FROM python:3.12-slim
# All that it needs, and no Spark.
RUN pip install --no-cache-dir --no-deps aqueduct-spark \
 && pip install --no-cache-dir "aioquic>=1.7,<1.8" "certifi>=2024.7.4" "cryptography>=43" "msgspec>=0.19" "numpy>=1.26" \
      "prometheus-client>=0.21" "psutil>=6" "pyarrow>=19" "rich>=13.9" "shtab>=1.7"
RUN useradd --uid 10001 --create-home aqueduct \
 && install -d -o aqueduct -g aqueduct -m 0700 /var/lib/aqueduct
USER aqueduct
WORKDIR /var/lib/aqueduct
VOLUME /var/lib/aqueduct
# Producers; queries.
EXPOSE 4433/udp 4434/tcp
# In good order: what was taken in is made durable and acked.
STOPSIGNAL SIGTERM
ENTRYPOINT ["aqueduct", "intake", "--config", "/etc/aqueduct/intake.toml"]
