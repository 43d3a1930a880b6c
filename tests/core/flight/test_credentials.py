from __future__ import annotations

import json
import pickle
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.flight.credentials import KEYS_FILE, Credentials


def test_a_restarted_query_finds_the_same_credentials(tmp_path: Path) -> None:
    first = Credentials.for_spool(tmp_path / "spool")
    assert Credentials.for_spool(tmp_path / "spool") == first
    assert first != Credentials.for_spool(tmp_path / "other")


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    Credentials.for_spool(tmp_path)
    assert stat.S_IMODE((tmp_path / KEYS_FILE).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [KEYS_FILE]


def test_all_who_race_to_make_them_get_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: Credentials.for_spool(tmp_path), range(16)))
    assert all(one == made[0] for one in made)


def test_repr_shows_no_secret() -> None:
    credentials = Credentials.fresh()
    identities = [credentials.server_identity(), credentials.client_identity()]
    shown = repr([credentials, *identities])
    assert credentials.token not in shown
    assert "PRIVATE" not in shown


def test_credentials_pass_through_json_and_pickle() -> None:
    credentials = Credentials.fresh()
    assert Credentials.from_json(json.loads(json.dumps(credentials.to_json()))) == credentials
    assert pickle.loads(pickle.dumps(credentials)) == credentials


def test_clients_get_no_signing_key() -> None:
    clients = Credentials.fresh().for_clients()
    assert clients.authority_key is None
    with pytest.raises(ValueError, match="for clients only"):
        clients.server_identity()


def test_a_server_certificate_is_signed_by_the_authority_and_named_after_the_token() -> None:
    credentials = Credentials.fresh()
    identity = credentials.server_identity()
    certificate = x509.load_pem_x509_certificate(identity.cert_pem)
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(credentials.authority))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.DNSName) == [credentials.server_name]


def test_whoever_has_the_token_makes_certificates_of_one_authority() -> None:
    mine = Credentials.fresh()
    yours = Credentials(mine.token, b"")
    authority = x509.load_pem_x509_certificate(mine.client_authority())
    certificate = x509.load_pem_x509_certificate(yours.client_identity().cert_pem)
    certificate.verify_directly_issued_by(authority)
    assert certificate.public_key() != authority.public_key()
    stranger = x509.load_pem_x509_certificate(Credentials.fresh().client_identity().cert_pem)
    with pytest.raises(InvalidSignature):
        stranger.verify_directly_issued_by(authority)


def test_what_follows_from_a_token_is_the_same_in_every_release() -> None:
    known = Credentials("a token", b"")
    key = x509.load_pem_x509_certificate(known.client_authority()).public_key()
    point = key.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    assert known.server_name == "8da8e07127288b909f093769c2e017a8.aqueduct-intake"
    assert point.hex() == "03aa0d3ecfe8706a63d099ccef77738e738ebb278683b08c53d01eb750b7894c5a"


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"not json", b'{"v": 1, "token": 7}'])
def test_a_damaged_file_is_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / KEYS_FILE).write_bytes(content)
    with pytest.raises(SpoolFailed, match=r"SPOOL\.CORRUPT.*damaged"):
        Credentials.for_spool(tmp_path)


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / KEYS_FILE).write_text(json.dumps(Credentials.fresh().to_json() | {"v": 2}))
    with pytest.raises(SpoolFailed, match=r"SPOOL\.VERSION"):
        Credentials.for_spool(tmp_path)


def test_a_directory_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolFailed, match=r"SPOOL\.IO"):
        Credentials.for_spool(tmp_path / "file" / "spool")
