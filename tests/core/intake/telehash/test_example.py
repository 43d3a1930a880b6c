"""conf/telehash.toml, the example of a standalone intake of Telehash."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.config_file import read
from aqueduct_core.intake.telehash.channels import ChannelIntake
from aqueduct_core.intake.telehash.settings import TelehashIntake
from aqueduct_core.primitives.settings import settings_of
from tests.support.repository import ROOT

EXAMPLE = ROOT / "conf" / "telehash.toml"


def written(folder: Path, text: str) -> TelehashIntake:
    (folder / "intake.toml").write_text(text)
    settings, _ = read(folder / "intake.toml")
    assert isinstance(settings, TelehashIntake)
    return settings


def test_the_example_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = written(tmp_path, EXAMPLE.read_text())
    assert (settings.listen, settings.carrier) == ("0.0.0.0:4433", "quic")
    assert settings.types == ("_orders", "_clicks")
    assert settings.channels == ChannelIntake()
    for each in settings_of(ChannelIntake):
        assert f"\n{each.key} = " in EXAMPLE.read_text()


def test_what_it_leaves_out_is_right_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = EXAMPLE.read_text()
    plain = re.sub("(?m)^listen = .*$", "", text).replace('# listen = "udp', 'listen = "udp')
    settings = written(tmp_path, plain.replace("# udpTrusted", "udpTrusted"))
    assert (settings.listen, settings.carrier) == ("127.0.0.1:4433", "udp")
    dials = re.sub("(?m)^(listen|certFile|keyFile) = .*$|# .connect. below.*", "", text)
    dials = re.sub(r"(?m)^# (\[connect\]|endpoints|caFile)", r"\1", dials)
    settings = written(tmp_path, dials)
    assert settings.connect is not None
    assert settings.connect.endpoints == ("peer.example:4433",)
    with pytest.raises(InvalidOption, match=r"MISSING.*no type of channel"):
        written(tmp_path, re.sub("(?m)^types = .*$", "", dials))
