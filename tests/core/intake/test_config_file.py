from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.aqueduct.limits import AqueductLimits
from aqueduct_core.intake.aqueduct.settings import Subscription
from aqueduct_core.intake.config_file import read, write_access
from tests.support.repository import ROOT

EXAMPLE = ROOT / "conf" / "intake.toml"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "intake.toml"
    path.write_text(text)
    return path


def test_the_example_is_complete_and_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings, keys = read(EXAMPLE)
    assert (settings.listen, settings.flight) == ("0.0.0.0:4433", "0.0.0.0:4434")
    assert (settings.spool, str(keys)) == ("spool/intake-0", "spool")
    assert (settings.group_commit, settings.group_bytes) == (0.02, 1 << 20)
    assert settings.spool_max_bytes == 10 << 30
    assert settings.credentials == Credentials.for_spool(tmp_path / "spool")


def test_what_the_example_leaves_out_is_right_too(tmp_path: Path) -> None:
    listens, dials = EXAMPLE.read_text().split("# [connect]  ")
    option = re.compile(r"# (\w+ = .*)")
    more = "\n".join(found[1] for found in map(option.fullmatch, dials.splitlines()) if found)
    settings, _ = read(written(tmp_path, f'spool = "{tmp_path}/s"\n[connect]\n{more}'))
    assert settings.connect is not None
    assert settings.connect.subscriptions == (Subscription("orders"), Subscription("prices"))
    assert (settings.connect.first_wait, settings.connect.idle_timeout) == (0.2, 30.0)
    limits = listens.partition("[limits]")[2]
    more = "\n".join(found[1] for found in map(option.fullmatch, limits.splitlines()) if found)
    text = f'spool = "{tmp_path}/s"\nlisten = "[::1]:0"\n[limits]\n{more}'
    settings, _ = read(written(tmp_path, text))
    assert settings.limits == AqueductLimits(
        connections=4096,
        connections_per_address=1024,
        handshakes=512,
        handshakes_per_network=128,
        retry="auto",
        channels=65536,
        attachments=256,
        header_bytes=64 << 10,
        memory=512 << 20,
        connection_share=0.5,
        handshake_timeout=10.0,
    )


LISTENS = 'spool = "s"\nlisten = "[::1]:0"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spool = ", r"BAD_VALUE.*intake\.toml is no TOML"),
        ("", r"MISSING.*intake\.toml: the settings name no spool"),
        ('spool = "s"', r"MISSING.*listens or connects, and neither"),
        ('spool = "s"\nlisten = "[::1]:0"\n[connect]\nendpoints = ["a:1"]', "CONFLICT.*both"),
        ('spool = "s"\nlisten = "[::1]:0"\npartitons = 2', "UNKNOWN.*partitons.*partitions"),
        ('spool = "s"\nlisten = "[::1]:0"\n[tls]\ncert = "x"', r"UNKNOWN.*tls\.cert"),
        ('spool = "s"\nlisten = "[::1]:0"\ngroupCommit = 20', r"groupCommit is 20, without a unit"),
        ('spool = "s"\nlisten = "[::1]:0"\nspoolMaxBytes = "10x"', r"spoolMaxBytes: '10x' is no"),
        ('spool = "s"\nlisten = "[::1]:0"\npartitions = "many"', "wrong kind"),
        ('spool = "s"\nlisten = "[::1]:0"\n[auth]\ntoken = "hush"', r"holds auth\.token"),
        ('spool = "s"\nlisten = "[::1]:0"\n[auth]\ntokenEnv = "T"', r"auth\.tokenEnv.*tokenFile"),
        ('spool = "s"\nlisten = "[::1]:0"\nskipGivenOut = true', "UNKNOWN.*skipGivenOut"),
        ('spool = "s"\n[connect]\nendpoints = ["a:1"]\nbounded = true', r"connect\.bounded"),
        ('spool = "s"\n[connect]\nendpoints = ["a"]', "BAD_VALUE.*endpoint is 'a'"),
        ('spool = "s"\n[connect]\nendpoints = ["a:0"]', "BAD_VALUE.*endpoint is 'a:0'"),
        ('spool = "s"\n[connect]\nendpoints = []', "MISSING.*no endpoint"),
        ('spool = "s"\n[connect]\nendpoints = ["a:1", "a:1"]', "names 'a:1' twice"),
        ('spool = "s"\n[connect]\nendpoints = ["a:1"]\nsubscriptions = ["x", "x"]', "'x' twice"),
        ('spool = "s"\n[connect]\nendpoints = ["a:1"]\nsubscriptions = [1]', "wrong kind"),
        ('spool = "s"\n[connect]\nendpoints = ["a:1"]\nfirstWait = "1h"', "waits between"),
        # the wrong kind of a value, with its key
        ("spool = 5", "key spool is 5; it must be a text in quotes"),
        ('spool = "s"\nlisten = 5', "key listen is 5; it must be a text"),
        (f"{LISTENS}partitions = 2.5", "partitions is 2.5; .* whole number"),
        (f"{LISTENS}partitions = 0", "partitions is 0; .* from 1 to 4096"),
        (f'{LISTENS}sharePort = "yes"', 'is "yes"; it must be true or'),
        (f"{LISTENS}limits = 5", r"limits is 5; .* a table, written \[lim"),
        (f'{LISTENS}[limits]\nchannels = "x"', r'limits\.channels is "x"'),
        (f'{LISTENS}[limits]\nretry = "no"', r'one of "auto", "always"'),
        (
            'spool = "s"\nlisten = "[::1]:0"\n[tls]\nselfSigned = true',
            r"tls\.selfSigned is true.*list",
        ),
        (f'{LISTENS}[tls]\nselfSigned = ["a", 5]', r"selfSigned\[1\] is 5"),
        (
            'spool = "s"\nlisten = "[::1]:0"\n[auth]\ntokenFile = ["hush"]',
            r"auth\.tokenFile it must",
        ),
        ('spool = "s"\n[connect]\nendpoints = "a:1"', r'endpoints is "a:1"; it must be a list'),
        ('spool = "s"\n[connect]\ncaFile = "a"', r"MISSING.*no key connect\.endpoints"),
        (f"{LISTENS}keys = 5", "key keys is 5; it must be a text"),
        (f"{LISTENS}protocol = 5", "key protocol is 5"),
        # bounds and units, as people write them
        (f'{LISTENS}groupCommit = "1h"', "is '1h'; .* from 0ms to 10s"),
        (f'{LISTENS}maxMessageBytes = "1t"', "a size from 1b to 1g"),
        (f"{LISTENS}groupCommit = true", 'is true, without.*"20ms"'),
        # names
        ('spool = "s"\nListen = "[::1]:0"', "unknown key Listen. The nearest one is listen"),
        ('spool = "s"\n[limits]\nconections = 5', r"nearest one is limits\.connections"),
        (
            'spool = "s3://b/s"\nlisten = "[::1]:0"',
            "spool is 's3://b/s'.*without a scheme",
        ),
    ],
)
def test_a_mistake_is_one_error_that_names_it_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidOption, match=message) as caught:
        read(written(tmp_path, text))
    assert "hush" not in str(caught.value)
    assert os.listdir(tmp_path) == ["intake.toml"]


def test_marks_of_editors_and_of_other_systems(tmp_path: Path) -> None:
    text = f'spool = "{tmp_path}/s"\r\nlisten = "[::1]:0"\r\n'
    path = tmp_path / "intake.toml"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read(path)[0].listen == "[::1]:0"
    path.write_bytes(b'spool = "\xff"')
    with pytest.raises(InvalidOption, match=r"byte 9 is not UTF-8\. Save it as text in UTF-8"):
        read(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"none\.toml cannot be read: No such file"):
        read(tmp_path / "none.toml")


def test_intakes_share_the_credentials_of_a_directory(tmp_path: Path) -> None:
    made = []
    for number in range(2):
        text = f'spool = "{tmp_path}/{number}"\nkeys = "{tmp_path}/keys"\nlisten = "[::1]:0"'
        made.append(read(written(tmp_path, text)))
    assert made[0][0].credentials == made[1][0].credentials
    assert {keys for _, keys in made} == {tmp_path / "keys"}


def test_access_files_are_kept_up_to_date(tmp_path: Path) -> None:
    for credentials in (Credentials.fresh(), Credentials.fresh()):
        files = write_access(tmp_path, credentials)
        assert write_access(tmp_path, credentials) == files
        assert files.token_file.read_text() == credentials.token + "\n"
        assert files.ca_file.read_bytes() == credentials.authority
        assert stat.S_IMODE(files.token_file.stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["intake-ca.pem", "intake-token"]
