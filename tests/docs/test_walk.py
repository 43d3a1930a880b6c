"""The reader of pages reads what is there, and notices what is not so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import blocks
from tests.docs.walk import Walk
from tests.support.waiting import alive

PAGE = """
# One

```sh
echo 4433 /data/x > out; cat out
```

```text
…/x
```

<!-- hidden python: number = 4 -->

<!-- file: conf/a.toml -->
```toml
x = 1
```

## Two

```python
print(number + 1, 4433)
```

    indented
"""


def go(folder: Path, page: str) -> Walk:
    with Walk(folder) as walk:
        walk.go(blocks.parsed("page.md", page))
    return walk


def test_blocks_are_found_with_what_is_said_of_them() -> None:
    found = blocks.parsed("page.md", PAGE)
    assert [(each.heading, each.number, each.language) for each in found] == [
        ("One", 1, "sh"),
        ("One", 2, "text"),
        ("One", 0, "python"),
        ("One", 3, "toml"),
        ("Two", 1, "python"),
        ("Two", 2, ""),
    ]
    assert found[3].file == "conf/a.toml"
    assert found[0].line == 4


def test_a_page_is_walked_in_one_folder_with_the_same_ports(tmp_path: Path) -> None:
    walk = go(tmp_path, PAGE)
    assert (tmp_path / "conf" / "a.toml").read_text() == "x = 1\n"
    five, port = walk.printed.split()
    assert five == "5"
    assert (tmp_path / "out").read_text() == f"{port} {tmp_path}/x\n"


@pytest.mark.parametrize(
    "page",
    [
        "```sh\nfalse\n```",
        "```python\n1 / 0\n```",
        "```sh\necho one\n```\n\n```text\ntwo\n```",
        "<!-- fails: no such thing -->\n```sh\necho other >&2; false\n```",
        "<!-- fails: division -->\n```python\n1 / 1\n```",
    ],
)
def test_what_is_not_so_is_noticed(tmp_path: Path, page: str) -> None:
    with pytest.raises((AssertionError, ZeroDivisionError, pytest.fail.Exception)):
        go(tmp_path, page)


def test_dots_stand_for_anything_and_a_line_of_them_for_lines(tmp_path: Path) -> None:
    shown = go(tmp_path, "```sh\nseq 9; echo\n```\n\n```text\n1\n…\n3\n4\n…\n9\n```")
    assert shown.printed.startswith("1\n2")
    with pytest.raises(AssertionError):
        go(tmp_path, "```sh\nseq 9\n```\n\n```text\n1\n3\n```")


def test_what_has_to_fail_fails_so(tmp_path: Path) -> None:
    page = "<!-- fails: division -->\n```python\n1 / 0\n```\n\n```text\ndivision by …\n```"
    assert "division by zero" in go(tmp_path, page).printed
    assert "oh" in go(tmp_path, "<!-- fails: oh -->\n```sh\necho oh >&2; false\n```").printed


def test_what_goes_on_running_ends_with_the_page(tmp_path: Path) -> None:
    page = """
<!-- background: here -->
```sh
echo $$ > pid; echo here; exec sleep 600
```

<!-- shown by: sleep -->
```text
here
```
"""
    go(tmp_path, page)
    assert not alive(int((tmp_path / "pid").read_text()))


def test_what_goes_on_running_is_stopped(tmp_path: Path) -> None:
    page = """
<!-- background: here -->
```sh
trap "touch stopped; exit" INT; echo here; while true; do read -t 1 <> <(:); done
```

<!-- stop: trap -->

```sh
ls stopped
```
"""
    assert go(tmp_path, page).printed == "stopped\n"
