"""What docs/sql.md shows, from its first block to its last."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import scene, spark  # noqa: F401  the session of these tests, too
from tests.spark.scene import Scene
from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "sql.md").read_text("utf-8")
ADDRESS, HOME = "127.0.0.1:4433", "/data/aqueduct"


def blocks() -> Iterator[tuple[str, str]]:
    for language, code in re.findall(r"```(sql|python)\n(.*?)```", PAGE, re.DOTALL):
        for statement in code.split(";\n") if language == "sql" else [code]:
            yield language, statement.strip()


@pytest.mark.long
@pytest.mark.spark
def test_the_page_runs(scene: Scene, tmp_path: Path) -> None:  # noqa: F811
    session = scene.spark
    scene.spool = tmp_path / "spool"
    names: dict[str, Any] = {"spark": session}
    results: dict[str, list[Any]] = {}
    session.sql(f"CREATE DATABASE sql_page LOCATION '{tmp_path}/database'")
    session.sql("USE sql_page")
    try:
        for language, shown in blocks():
            code = shown.replace(HOME, str(tmp_path))
            if "listen" in code:
                code = code.replace(ADDRESS, "127.0.0.1:0")
            elif ADDRESS in code:
                code = code.replace(f"aqueduct://{ADDRESS}", scene.endpoint())
            if language == "python":
                exec(code, names)
                if "query" in names:
                    scene.follow(names.pop("query"))
                    scene.intake()
            elif code.startswith("SELECT"):
                results[shown] = [tuple(row) for row in session.sql(code).collect()]
            else:
                session.sql(code)
        assert len(results) == 3
        assert [rows for shown, rows in results.items() if "sum" in shown] == [[(6,)]]
        assert [rows for shown, rows in results.items() if "stored_numbers" in shown] == [[(3,)]]
        rows = session.sql("SELECT channel, count(*) FROM arrivals GROUP BY channel").collect()
        assert dict(rows).items() >= {"greetings": 1, "numbers": 3}.items()
    finally:
        session.sql("USE default")
        session.sql("DROP DATABASE sql_page CASCADE")
        for view in ("live", "stored_numbers"):
            session.catalog.dropTempView(view)
