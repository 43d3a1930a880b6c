"""What can be told of the benches with Kafka without one."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests.bench import kafka_broker
from tests.bench.kafka_broker import NoKafka, Topic, free_ports, resolved
from tests.bench.steady import SIZE, age_ms, paced, payload, words
from tests.support.virtual_loop import run_virtually


def test_a_topic_with_tls_says_so_to_each_client() -> None:
    plain, secure = Topic("t", "h:1"), Topic("t", "h:2", Path("ca.pem"))
    assert plain.spark_options == {"kafka.bootstrap.servers": "h:1"}
    assert plain.librdkafka_options == {"bootstrap.servers": "h:1"}
    assert plain.python_options == {"bootstrap_servers": "h:1"}
    assert secure.spark_options["kafka.ssl.truststore.location"] == "ca.pem"
    assert secure.librdkafka_options["ssl.ca.location"] == "ca.pem"
    assert secure.python_options["ssl_cafile"] == "ca.pem"


def test_free_ports_differ() -> None:
    assert len(set(free_ports(3))) == 3


def test_artifacts_that_are_still_there_are_not_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    jar = tmp_path / "a.jar"

    def resolve(coordinates: tuple[str, ...]) -> list[Path]:
        asked.append(coordinates)
        jar.touch()
        return [jar]

    monkeypatch.setattr(kafka_broker, "FOUND", tmp_path / "found" / "kafka.json")
    monkeypatch.setattr(kafka_broker, "_resolve", resolve)
    assert resolved("g:a:2", "g:a:1") == resolved("g:a:2", "g:a:1") == [jar]
    assert asked == [("g:a:2", "g:a:1")]
    jar.unlink()
    assert resolved("g:a:2", "g:a:1") == [jar]
    assert len(asked) == 2
    resolved("g:b:1")
    found = json.loads((tmp_path / "found" / "kafka.json").read_text())
    assert found == {"g:a:2": [str(jar)], "g:b:1": [str(jar)]}


def test_a_connector_leaves_out_what_spark_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hadoop-client-api-3.5.1.jar").touch()
    jars = [
        Path("org.apache.spark_spark-sql-kafka-0-10_2.13-4.2.0.jar"),
        Path("org.apache.hadoop_hadoop-client-api-3.5.0.jar"),
        Path("org.apache.kafka_kafka-clients-3.9.2.jar"),
    ]
    monkeypatch.setattr(kafka_broker, "_spark_jars", lambda: tmp_path)
    monkeypatch.setattr(kafka_broker, "resolved", lambda *coordinates: jars)
    assert kafka_broker.connector() == [jars[0], jars[2]]
    assert kafka_broker.session_conf() == {"spark.jars": f"{jars[0]},{jars[2]}"}


def test_where_there_is_no_connector_the_error_names_both_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(*coordinates: str) -> list[Path]:
        raise NoKafka(f"{coordinates[0]} is not to be had")

    monkeypatch.setattr(kafka_broker, "resolved", none)
    with pytest.raises(NoKafka, match=rf"kafka-0-10_2\.13:.*nor {kafka_broker.CONNECTOR_BEFORE}"):
        kafka_broker.connector()


def test_a_message_tells_how_long_ago_it_was_due() -> None:
    message = payload(12.5)
    assert len(message) == SIZE
    assert age_ms(message, 12.75) == pytest.approx(250.0)


def test_a_steady_sender_sends_all_and_each_at_its_time() -> None:
    """However late the sender wakes up: what it was late by shows in the messages' ages."""
    sent: list[bytes] = []
    run_virtually(paced(1_000.0, 0.05, sent.extend))
    assert len(sent) == 50
    due = [-age_ms(each, 0.0) for each in sent]
    assert [round(b - a, 3) for a, b in pairwise(due)] == [1.0] * 49


def test_a_target_becomes_the_words_of_its_sender() -> None:
    assert words("aqueduct://h:1") == ["aqueduct://h:1"]
    assert words(Topic("t", "h:1")) == ["topic", "t", "h:1", "-"]
    assert words(Topic("t", "h:1", Path("ca"))) == ["topic", "t", "h:1", "ca"]
