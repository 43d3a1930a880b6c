"""What a running intake was started with, by option: a query that comes with other options
finds the difference, instead of an intake that silently goes on as before.

Not all of it is here. What decides who can bring messages is settled for good and refused
(`recorded`), the number of partitions is that of the spool, each query renews the lease
with its own option, and ``numIntakes`` only says how endpoints are shared that nobody dials yet.
The order of endpoints and names does not matter.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.intake.settings.service import ServiceSettings
from aqueduct_core.primitives.settings import settings_of

SHOWN = 80
"""Characters of a value that are shown as they are; of a longer one a digest."""


def in_force(settings: IntakeSettings) -> dict[str, str]:
    """The settings by option, as text; those that are not given are left out.

    What may hold a secret is a digest, with the token of the spool as its key: whoever lacks that
    cannot even try values.
    """

    def digest(value: str) -> str:
        key = settings.credentials.token.encode()
        return "#" + hmac.new(key, value.encode(), hashlib.sha256).hexdigest()[:16]

    plain: dict[str, Any] = {
        each.name: getattr(section, each.field)
        for section, kind in (
            (settings, ServiceSettings),
            (settings.limits, type(settings.limits)),
            *((own, type(own)) for own in settings.own_sections),
        )
        for each in settings_of(kind)
    }
    plain |= settings.http.in_force() | settings.own_options
    secret: dict[str, Any] = {}
    if settings.connect is None:
        plain |= {"tls.certFile": settings.tls.cert_file, "tls.keyFile": settings.tls.key_file}
        secret["auth.tokenEnv"] = settings.auth.token
    else:
        plain |= settings.connect.in_force()
        secret |= settings.connect.secrets_in_force()
    shown = {option: _text(value) for option, value in plain.items() if value is not None}
    hidden = {option: digest(_text(value)) for option, value in secret.items() if value}
    return {
        option: text if len(text) <= SHOWN else digest(text) for option, text in shown.items()
    } | hidden


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The options by which two of them differ, in order."""
    return sorted(option for option in {*one, *other} if one.get(option) != other.get(option))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
