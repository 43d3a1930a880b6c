"""README, by someone who has an empty environment, another Python on PATH and no checkout."""

from __future__ import annotations

import re

import pytest

from tests.docs.plain_place import PlainPlace
from tests.docs.readme import (
    a_job_ingests_it,
    an_intake_outlives_its_query,
    blocks,
    stop,
    the_first_stream_runs,
    what_is_stored_is_shown,
)
from tests.support.waiting import LONG, Output
from tests.wheel.conftest import OLDEST_SPARK

pytestmark = [pytest.mark.wheel, pytest.mark.spark]

CONFIG = """
spool = "spool/intake-0"
keys = "spool"
listen = "127.0.0.1:0"
[tls]
certFile = "tls/cert.pem"
keyFile = "tls/key.pem"
"""
ZEROS = "lost_after_ack=0 duplicates=0 order_breaks=0"


def test_it_is_the_oldest_pair_with_nothing_that_is_not_needed(installed: PlainPlace) -> None:
    listed = installed.run(".venv/bin/python -m pip list --format freeze").stdout
    packages = dict(line.split("==") for line in listed.splitlines())
    assert packages["pyspark"] == OLDEST_SPARK
    assert not packages.keys() & {"pandas", "matplotlib", "pytest", "mypy", "ruff", "hypothesis"}
    module = installed.run(".venv/bin/python -c 'import aqueduct; print(aqueduct.__file__)'")
    assert module.stdout.startswith(str(installed.folder))


def test_the_doctor_is_content_in_an_activated_environment(installed: PlainPlace) -> None:
    told = installed.run("source .venv/bin/activate; aqueduct doctor").stdout
    assert "bad" not in {line[:4].strip() for line in told.splitlines()}, told


def test_the_first_stream_runs_and_a_job_ingests_it(installed: PlainPlace) -> None:
    """Also where a variable names another Python: what the program says comes first."""
    session = the_first_stream_runs(installed, PYSPARK_PYTHON="python3")
    shown = what_is_stored_is_shown(installed, session)
    assert "hello" in shown
    rows = a_job_ingests_it(installed, blocks("Jobs", "sh")[0])
    assert {"channel": "greetings", "value": "hello"} in rows


def test_a_job_names_the_python_that_lacks_it(installed: PlainPlace) -> None:
    command = ".venv/bin/aqueduct job ingest --config none.toml"
    done = installed.run(command, check=False, PYSPARK_PYTHON="python3")
    assert done.returncode == 1
    assert done.stderr.startswith("[AQUEDUCT_INVALID_OPTION.CONFLICT] Spark looks formats up with")
    assert "No module named 'pyspark_aqueduct'" in done.stderr
    export = re.search(r"Set: (export .*?)\. SQLSTATE", done.stderr)
    assert export is not None
    again = installed.run(f"{export[1]}; {command}", check=False)
    told = "ingest: [AQUEDUCT_INVALID_OPTION.BAD_VALUE] the configuration none.toml cannot be read"
    assert again.stderr.startswith(told)


def test_an_intake_outlives_its_query(installed: PlainPlace) -> None:
    one, two = an_intake_outlives_its_query(installed)
    assert "greetings" in one
    assert "greetings" in two


def test_the_demo_accounts_for_every_message_and_says_what_its_picture_needs(
    installed: PlainPlace,
) -> None:
    done = installed.run(".venv/bin/aqueduct demo --seconds 4")
    lines = done.stdout.strip().splitlines()
    ledger = lines[-4:]
    assert [line.split()[0] for line in ledger] == ["counters", "load", "processes", "total"]
    assert all(line.endswith(ZEROS) for line in ledger)
    assert 'no picture, which needs matplotlib: pip install "aqueduct-spark[demo]"' in lines


def test_a_host_without_spark_takes_messages_in_and_sends_them(without_spark: PlainPlace) -> None:
    listed = without_spark.run(".venv/bin/python -m pip list --format freeze").stdout
    assert "pyspark" not in listed
    without_spark.run(".venv/bin/aqueduct cert tls")
    (without_spark.folder / "intake.toml").write_text(CONFIG)
    intake = without_spark.start(".venv/bin/aqueduct intake --config intake.toml")
    output = Output(intake)
    try:
        (address,) = re.findall(r"listen=(\S+)", output.wait_for("ready ", LONG))
        send = f".venv/bin/aqueduct send aqueduct://{address} --ca tls/ca.pem --channel greetings"
        assert "acked=1" in without_spark.run(f"echo hello | {send}").stdout
    finally:
        stop(intake, output)
    assert '"value": "hello"' in without_spark.run(".venv/bin/aqueduct spool cat spool").stdout
    job = without_spark.run(".venv/bin/aqueduct job ingest --config none.toml", check=False)
    assert job.stderr.startswith("[AQUEDUCT_INVALID_OPTION.MISSING] there is no PySpark for")
