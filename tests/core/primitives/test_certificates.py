"""Authorities, what they sign, and certificates that vouch for themselves; keys never shown."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives.certificates import Authority, Issued, Validity, self_signed

SINCE = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
YEAR = Validity(SINCE, SINCE + datetime.timedelta(days=365))
DAY = Validity(SINCE, SINCE + datetime.timedelta(days=1))


def certificate(issued: Issued) -> x509.Certificate:
    return x509.load_pem_x509_certificate(issued.cert_pem)


def purposes(issued: Issued) -> list[x509.ObjectIdentifier]:
    found = certificate(issued).extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    return list(found.value)


def test_what_an_authority_issues_is_signed_by_it_and_lives_no_longer() -> None:
    authority = Authority.made("ours", YEAR)
    leaf = certificate(authority.issue(["host.example", "127.0.0.1"]))
    leaf.verify_directly_issued_by(authority.certificate)
    assert leaf.not_valid_before_utc == YEAR.since
    assert leaf.not_valid_after_utc == YEAR.until
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["host.example"]
    assert list(map(str, names.get_values_for_type(x509.IPAddress))) == ["127.0.0.1"]
    shorter = certificate(authority.issue(["host.example"], DAY))
    assert shorter.not_valid_after_utc == DAY.until


def test_an_authority_comes_back_from_its_files() -> None:
    authority = Authority.made("ours", YEAR)
    again = Authority.loaded(authority.cert_pem, authority.key_pem)
    certificate(again.issue(["host.example"])).verify_directly_issued_by(authority.certificate)
    key = rsa.generate_private_key(65537, 2048)
    other = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(ValueError, match="elliptic curve"):
        Authority.loaded(authority.cert_pem, other)


def test_authorities_of_one_key_and_name_verify_each_other() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    one, two = (Authority.made("ours", valid, key) for valid in (DAY, YEAR))
    leaf = certificate(one.issue(["host.example"]))
    leaf.verify_directly_issued_by(two.certificate)
    assert leaf.issuer == two.certificate.subject


def test_a_certificate_is_for_one_purpose() -> None:
    authority = Authority.made("ours", YEAR)
    assert purposes(authority.issue(["a.example"])) == [ExtendedKeyUsageOID.SERVER_AUTH]
    client = authority.issue(["a.example"], purpose=ExtendedKeyUsageOID.CLIENT_AUTH)
    assert purposes(client) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_names_that_no_certificate_can_hold() -> None:
    with pytest.raises(InvalidOption, match="needs a name"):
        self_signed([], YEAR)
    with pytest.raises(InvalidOption, match="bücher"):
        self_signed(["bücher.example"], YEAR)
    long = certificate(self_signed(["a" * 63 + ".example"], YEAR))
    long.verify_directly_issued_by(long)
    assert long.not_valid_after_utc == YEAR.until


def test_keys_are_in_no_repr() -> None:
    authority = Authority.made("ours", YEAR)
    for shown in (repr(authority), repr(authority.issue(["a.example"]))):
        assert "PRIVATE" not in shown
        assert "key" not in shown
