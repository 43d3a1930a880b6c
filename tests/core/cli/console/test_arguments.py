"""Values and options are checked before anything is done."""

from __future__ import annotations

import pytest

from aqueduct_core.cli.main import main


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("fly",),
        ("send",),
        ("send", "aqueduct://h:1", "--reliability", "mostly"),
        ("send", "aqueduct://h:1", "--ack-timeout", "60"),
        ("send", "aqueduct://h:1", "-H", "novalue"),
        ("send", "aqueduct://h:1", "--ca", "x", "--insecure"),
        ("listen", "127.0.0.1:0", "-c", "0"),
        ("listen", "127.0.0.1:0", "-J", "-f", "%s"),
    ],
)
def test_wrong_usage_exits_with_2(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: aqueduct" in capsys.readouterr().err
