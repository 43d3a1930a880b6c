"""The session of Spark that all tests share."""

from __future__ import annotations

from tests.spark.conftest import spark as spark
