"""What the planner hands to tasks."""

from __future__ import annotations

from aqueduct_spark.model.offsets import DataRange
from aqueduct_spark.model.partitions import DataPartition, LaunchPartition
from tests.spark.ground import Ground


def test_partitions_do_not_show_secrets(ground: Ground) -> None:
    order = ground.order()
    rows = DataRange(0, "id", "h:1", 0, 0, 1)
    for partition in (LaunchPartition(order), DataPartition(rows, order, 1.0, False)):
        assert ground.credentials.token not in repr(partition)
        assert "PRIVATE" not in repr(partition)
