"""What is wrong with a certificate that aioquic does not trust.

aioquic tells it by a TLS alert, which is the same for a wrong name and for an unknown authority,
and by a text. Here the check is made once more, and its exceptions are looked at.
"""

from __future__ import annotations

from aioquic.tls import Alert, AlertCertificateExpired, Context, verify_certificate

from aqueduct_core.transport.link import CertificateFault

NOT_YET_VALID, HAS_EXPIRED = 9, 10
"""Of a certificate of the chain, as OpenSSL numbers it (X509_V_ERR_…)."""


def certificate_fault(tls: Context) -> CertificateFault:
    """Why a client does not trust the certificate that the server showed."""
    certificate = tls._peer_certificate
    assert certificate is not None
    try:
        verify_certificate(
            certificate=certificate,
            chain=tls._peer_certificate_chain,
            server_name=tls._server_name,
            cadata=tls._cadata,
            cafile=tls._cafile,
            capath=tls._capath,
        )
    except AlertCertificateExpired:
        return CertificateFault.DATES
    except Alert as error:
        if error.__cause__ is not None:  # of the package that compares names
            return CertificateFault.NAME
        code, *_ = getattr(error.__context__, "errors", None) or (0,)
        if code in (NOT_YET_VALID, HAS_EXPIRED):
            return CertificateFault.DATES
    return CertificateFault.AUTHORITY
