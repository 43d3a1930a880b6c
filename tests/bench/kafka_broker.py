"""A Kafka broker of Maven artifacts, for the benches that set it beside ours.

The artifacts come by the resolver that Spark brings (Ivy), into its cache, with whatever
repositories it is configured for; nothing of them is kept here. One broker in KRaft mode serves
topics in the page cache and topics that flush each append (``flush.messages=1``), plain and TLS.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyspark

from aqueduct_core.transport import ServerTls
from tests.support.repository import ROOT
from tests.support.waiting import wait_until

BROKER = "org.apache.kafka:kafka_2.13:4.3.1"
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
CONNECTOR_BEFORE = "4.2.0"
"""Of the connector, where there is none for the running Spark."""
FOUND = ROOT / ".java" / "kafka.json"
"""Where the artifacts lie that were found; it is of this machine, and not kept."""
HEAP = ("-Xms512m", "-Xmx1g")
PARTITIONS = 2

CONFIGURATION = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAIN://127.0.0.1:{plain},SECURE://127.0.0.1:{secure},CONTROL://127.0.0.1:{controller}
advertised.listeners=PLAIN://127.0.0.1:{plain},SECURE://127.0.0.1:{secure}
listener.security.protocol.map=PLAIN:PLAINTEXT,SECURE:SSL,CONTROL:PLAINTEXT
inter.broker.listener.name=PLAIN
controller.listener.names=CONTROL
ssl.keystore.type=PEM
ssl.keystore.location={folder}/server.pem
log.dirs={folder}/logs
num.partitions=2
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class NoKafka(RuntimeError):
    """What a bench with Kafka needs is not to be had here; the text says what."""


class Topic(NamedTuple):
    """A topic as a client sees it. ``ca``: the certificate to trust; None: without TLS."""

    name: str
    bootstrap: str
    ca: Path | None = None

    @property
    def spark_options(self) -> dict[str, str]:
        """For Spark's source and sink."""
        options = {"kafka.bootstrap.servers": self.bootstrap}
        if self.ca is not None:
            options |= {
                "kafka.security.protocol": "SSL",
                "kafka.ssl.truststore.type": "PEM",
                "kafka.ssl.truststore.location": str(self.ca),
            }
        return options

    @property
    def librdkafka_options(self) -> dict[str, str]:
        options = {"bootstrap.servers": self.bootstrap}
        if self.ca is not None:
            options |= {"security.protocol": "SSL", "ssl.ca.location": str(self.ca)}
        return options

    @property
    def python_options(self) -> dict[str, Any]:
        """For kafka-python."""
        if self.ca is None:
            return {"bootstrap_servers": self.bootstrap}
        return {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": "SSL",
            "ssl_cafile": str(self.ca),
        }


class Broker(NamedTuple):
    plain: str
    secure: str
    ca: Path
    pid: int

    def topic(self, *, durable: bool, tls: bool, partitions: int = PARTITIONS) -> Topic:
        """A new, empty one."""
        from confluent_kafka.admin import AdminClient, NewTopic

        name = f"bench-{uuid.uuid4().hex}"
        config = {"flush.messages": "1"} if durable else {}
        admin = AdminClient({"bootstrap.servers": self.plain, "log_level": 0})
        for made in admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values():
            made.result(60)
        return Topic(name, self.secure if tls else self.plain, self.ca if tls else None)


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """A broker whose log is in ``folder``; it is killed at the end.

    Raises:
        NoKafka: it, or a client, is not to be had.
    """
    try:
        import confluent_kafka.admin  # noqa: F401
    except ImportError:
        raise NoKafka("confluent-kafka is not installed: make bench-kafka does that") from None
    # the resolver leaves out what Spark brings, so the language's library comes from there
    jars = [*resolved(BROKER), *_spark_jars().glob("scala-library*.jar")]
    folder.mkdir(parents=True, exist_ok=True)
    tls = ServerTls.self_signed()
    assert tls.cert_pem is not None
    assert tls.key_pem is not None
    (folder / "server.pem").write_bytes(tls.key_pem + tls.cert_pem)
    (folder / "ca.pem").write_bytes(tls.cert_pem)
    ports = dict(zip(("plain", "secure", "controller"), free_ports(3), strict=True))
    settings = folder / "server.properties"
    settings.write_text(CONFIGURATION.format(folder=folder, **ports))
    java = [_java(), *HEAP, "-cp", os.pathsep.join(map(str, jars))]
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    log = (folder / "broker.log").open("wb")
    form = [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)]
    if subprocess.run(form, stdout=log, stderr=log, timeout=120, check=False).returncode:
        raise NoKafka(f"the broker's storage is not made: {(folder / 'broker.log').read_text()}")
    process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
    try:
        addresses = [f"127.0.0.1:{ports[name]}" for name in ("plain", "secure")]
        wait_until(lambda: _answers(process, addresses[0]), 120, "an answer of the broker")
        yield Broker(*addresses, folder / "ca.pem", process.pid)
    finally:
        process.kill()
        process.wait()
        log.close()


def _answers(process: subprocess.Popen[bytes], address: str) -> bool:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    if process.poll() is not None:
        raise NoKafka(f"the broker ended with {process.returncode}; its log lies beside its data")
    try:
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        return bool(admin.list_topics(timeout=2).brokers)
    except KafkaException:
        return False


def free_ports(count: int) -> list[int]:
    """TCP ports of loopback that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def connector() -> list[Path]:
    """The jars of Spark's connector for Kafka: of this Spark, or of the one before.

    Raises:
        NoKafka: there is none of either.
    """
    try:
        jars = resolved(f"{CONNECTOR}:{pyspark.__version__}", f"{CONNECTOR}:{CONNECTOR_BEFORE}")
    except NoKafka as error:
        raise NoKafka(f"{error}, nor {CONNECTOR_BEFORE}") from None
    present = {_artifact(path.name) for path in _spark_jars().glob("*.jar")}
    return [jar for jar in jars if _artifact(jar.name.partition("_")[2]) not in present]


def session_conf() -> Mapping[str, str]:
    """What a session is to have for the connector."""
    return {"spark.jars": ",".join(map(str, connector()))}


def _artifact(jar: str) -> str:
    """A jar's name without its version."""
    return "-".join(part for part in jar.split("-") if not part[:1].isdigit())


def _spark_jars() -> Path:
    return Path(pyspark.__file__).parent / "jars"


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def resolved(*coordinates: str) -> list[Path]:
    """The jars of the first of these Maven artifacts that is to be had, with all that it needs.

    What was found is remembered, so that the next bench asks nobody while its files are there.

    Raises:
        NoKafka: none of them can be had.
    """
    known: dict[str, list[str]] = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    key = coordinates[0]
    jars = [Path(name) for name in known.get(key, [])]
    if not jars or not all(jar.exists() for jar in jars):
        jars = _resolve(coordinates)
        FOUND.parent.mkdir(exist_ok=True)
        FOUND.write_text(json.dumps({**known, key: [str(jar) for jar in jars]}))
    return jars


def _resolve(coordinates: Sequence[str]) -> list[Path]:
    from py4j.protocol import Py4JError
    from pyspark.java_gateway import launch_gateway

    gateway: Any = launch_gateway()
    reason = ""
    try:
        jvm = gateway.jvm
        none = _module(jvm.scala, "None$")
        nothing = _module(jvm.scala.collection.immutable, "Nil$")
        utils = _module(jvm.org.apache.spark.util, "MavenUtils$")
        silent = jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream())
        for coordinate in coordinates:
            settings = utils.buildIvySettings(none, none, False, silent)
            try:
                found = utils.resolveMavenCoordinates(
                    coordinate, settings, none, True, nothing, False, silent
                )
            except Py4JError as error:
                reason = str(error).partition("\n")[2].partition("\n")[0]
                continue
            return [Path(jar) for jar in found.mkString("\n").split("\n")]
    finally:
        gateway.shutdown()
        gateway.proc.terminate()
    raise NoKafka(f"{coordinates[0]} is not to be had: {reason}")


def _module(package: Any, name: str) -> Any:
    """A singleton object of Scala."""
    return getattr(getattr(package, name), "MODULE$")
