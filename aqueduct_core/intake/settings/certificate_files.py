"""The certificate of a listener as files that are replaced while it runs."""

from __future__ import annotations

import logging
from pathlib import Path

from aqueduct_core.errors import AqueductError
from aqueduct_core.transport.tls.credentials import ServerTls

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Between two looks at the files: a certificate is renewed days before it expires."""

Stamp = tuple[int, int, int]


class CertificateFiles:
    """Tells when the files of a certificate have others in their place.

    Two files are not replaced at one moment, so a pair that does not fit, is half written, or is
    outside its dates is left aside, with one warning, until the files change again.
    """

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        self._files = (cert_file, key_file)
        self._stamps = self._look()

    def renewed(self) -> ServerTls | None:
        """The new certificate, loaded and checked; None when nothing usable is new."""
        stamps = self._look()
        if stamps == self._stamps:
            return None
        self._stamps = stamps
        cert_file, key_file = self._files
        tls = ServerTls(cert_file=cert_file, key_file=key_file)
        try:
            tls.checked()
        except AqueductError as error:
            log.warning("the certificate that was served so far stays: %s", error)
            return None
        return tls

    def _look(self) -> tuple[Stamp | None, ...]:
        return tuple(_stamp(file) for file in self._files)


def _stamp(file: Path) -> Stamp | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
