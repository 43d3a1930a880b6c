"""The session of Spark that the tests of the connector have."""

from tests.spark.conftest import pytest_configure, spark  # noqa: F401
