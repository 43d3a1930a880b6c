"""Certificates for development, valid from now on for a number of days."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from aqueduct_core.primitives import certificates
from aqueduct_core.primitives.certificates import Authority, Issued, Validity

LEAF_DAYS = 365
AUTHORITY_DAYS = 3_650
BACKDATED = datetime.timedelta(minutes=10)
"""Certificates begin a little in the past, so that a clock slightly behind accepts them."""


def make_authority(*, days: int = AUTHORITY_DAYS, at: datetime.datetime | None = None) -> Authority:
    """A new certificate authority; nobody trusts it until told to."""
    return Authority.made("Aqueduct development CA", _for_days(days, at))


def issue(
    authority: Authority,
    names: Sequence[str],
    *,
    days: int = LEAF_DAYS,
    at: datetime.datetime | None = None,
) -> Issued:
    """A certificate for ``names`` (host names and IP addresses), signed by ``authority``."""
    return authority.issue(names, _for_days(days, at))


def self_signed(
    names: Sequence[str], *, days: int = LEAF_DAYS, at: datetime.datetime | None = None
) -> Issued:
    """A certificate for ``names`` that vouches for itself."""
    return certificates.self_signed(names, _for_days(days, at))


def _for_days(days: int, at: datetime.datetime | None) -> Validity:
    begin = (at if at is not None else datetime.datetime.now(datetime.UTC)) - BACKDATED
    return Validity(begin, begin + datetime.timedelta(days=days))
