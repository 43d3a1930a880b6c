# An intake in a container: docker build -f intake.Dockerfile -t aqueduct-intake .
FROM python:3.12-slim
RUN pip install --no-cache-dir aqueduct-spark
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
