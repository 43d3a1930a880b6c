"""Rows of the table of options: where messages come from, and the intake that takes them."""

from __future__ import annotations

from dataclasses import replace

from aqueduct_core.intake.settings.service import Limits, ServiceSettings
from aqueduct_core.primitives.settings import settings_of
from aqueduct_spark.options import values
from aqueduct_spark.options.spec import LAUNCHED, READ, STREAM_READ, WRITE, OptionKind, OptionSpec

_USES: dict[str, frozenset[OptionKind]] = {
    "retention": STREAM_READ,
    "logFormat": STREAM_READ,
    "transport": READ | WRITE,
    "earlyData": READ | WRITE,
    "maxMessageBytes": READ | WRITE,
    "maxDatagramBytes": READ | WRITE,
}
_SERVICE: dict[str, OptionSpec] = {
    each.name: OptionSpec.of(each, _USES.get(each.name, READ))
    for each in settings_of(ServiceSettings)
}
_OF_LISTENERS = {
    f"limits.{name}"
    for name in (
        "connections",
        "connectionsPerAddress",
        "handshakes",
        "handshakesPerNetwork",
        "retry",
        "memory",
        "connectionShare",
    )
}
"""Limits that a bounded read has no use for; the others are those of one connection."""

_LISTEN, _ENDPOINT = frozenset({"listen"}), frozenset({"endpoint"})


def _transport(text: str) -> str:
    """A transport that can be had. Another one is refused in the words of where it would be."""
    spec = _SERVICE["transport"]
    name: str = spec.parse(text)
    if name != spec.default:
        from aqueduct_core.transport.stacks import stack

        stack(name)
    return name


def limit_specs(limits: type[Limits]) -> tuple[OptionSpec, ...]:
    """A row for each limit of the intakes of a format."""
    return tuple(
        OptionSpec.of(each, READ, STREAM_READ, ways=_LISTEN)
        if each.name in _OF_LISTENERS
        else OptionSpec.of(each, READ)
        for each in settings_of(limits)
    )


SOURCE_SPECS: tuple[OptionSpec, ...] = (
    OptionSpec(
        "listen",
        values.listening(""),
        None,
        READ,
        STREAM_READ,
        "address:port on which producers are accepted; intake i listens on port + i, port 0 "
        "lets the system choose. Kept with the spool, as are tls.selfSigned, auth.* and, with "
        "endpoint, tls.insecure: later queries on it give the same.",
    ),
    OptionSpec(
        "intakes",
        values.addresses,
        None,
        READ,
        READ,
        "host:port,… of standalone intakes to read from, as they give their Flight address.",
    ),
    OptionSpec(
        "spool",
        values.path,
        None,
        READ,
        READ,
        "Directory of the durable log; executors that may run its intake have to see it. "
        "Alone in a batch read: what is stored there is read; with endpoint in a batch read: where "
        "its tasks keep what is on its way (temporary files by default).",
        ways=LAUNCHED | {"spool"},
    ),
    OptionSpec(
        "numIntakes",
        values.integer(1, 1000),
        "1",
        STREAM_READ,
        STREAM_READ,
        "Intakes to launch on executors. With listen no fewer than the spool has; with endpoint no "
        "more than it has addresses, and it may be changed at any time: an address that was "
        "dialled stays with its intake.",
        ways=LAUNCHED,
    ),
    OptionSpec(
        "partitionsPerIntake",
        values.integer(1, 1000),
        "2",
        STREAM_READ,
        STREAM_READ,
        "Spool partitions of each intake; a channel stays on one of them.",
        ways=LAUNCHED,
    ),
    _SERVICE["spoolMaxBytes"],
    _SERVICE["retention"],
    _SERVICE["groupCommit"],
    OptionSpec(
        "launchTimeout",
        values.positive_duration,
        "60s",
        STREAM_READ,
        STREAM_READ,
        "The longest wait for an intake to appear.",
    ),
    OptionSpec(
        "stallTimeout",
        values.duration_or_never,
        "never",
        STREAM_READ,
        STREAM_READ,
        "End the query with an error when something that may come back keeps it waiting for so "
        "long: an endpoint or an intake that does not answer, a full spool or disk. By default it "
        "waits, says so in the driver's log within 5 s, and goes on by itself.",
    ),
    OptionSpec(
        "refusalTimeout",
        values.duration_or_never,
        "60s",
        STREAM_READ,
        STREAM_READ,
        "The same for what does not come back by itself: an endpoint that refuses the token or "
        "the protocol, or whose certificate is not trusted. It is dialled again meanwhile.",
        ways=_ENDPOINT,
    ),
    OptionSpec(
        "lease",
        values.duration_within("1s", "1d"),
        "15s",
        STREAM_READ,
        STREAM_READ,
        "An intake without its query ends itself after this time.",
        ways=LAUNCHED,
    ),
    OptionSpec(
        "tls.caFile",
        values.path,
        None,
        READ | WRITE,
        READ | WRITE,
        "Authorities that the endpoint is verified with, those of the system by default; with"
        " intakes the authority of their spools, which has to be given.",
        ways=_ENDPOINT | {"intakes"},
    ),
    OptionSpec(
        "tls.serverName",
        values.text,
        None,
        READ | WRITE,
        READ | WRITE,
        "The name that the certificate of the endpoint must carry; the host by default.",
        ways=_ENDPOINT,
    ),
    OptionSpec(
        "tls.insecure",
        values.boolean,
        "false",
        READ | WRITE,
        READ | WRITE,
        "Do not verify the endpoint; for loopback addresses only.",
        ways=_ENDPOINT,
    ),
    OptionSpec(
        "tls.certFile",
        values.path,
        None,
        READ,
        STREAM_READ,
        "Certificate chain of the listener, PEM, on the executors.",
        ways=_LISTEN,
    ),
    OptionSpec(
        "tls.keyFile",
        values.path,
        None,
        READ,
        STREAM_READ,
        "Private key of the listener, PEM, on the executors.",
        ways=_LISTEN,
    ),
    OptionSpec(
        "tls.selfSigned",
        values.boolean,
        None,
        READ,
        STREAM_READ,
        "Make a certificate and tell its fingerprint; the default on a loopback address.",
        ways=_LISTEN,
    ),
    OptionSpec(
        "auth.tokenFile",
        values.path,
        None,
        READ | WRITE,
        READ | WRITE,
        "File with the bearer token; of a listener with all that it takes, one a line; with "
        "intakes that of their spools.",
        ways=LAUNCHED | {"intakes"},
    ),
    OptionSpec(
        "auth.tokenEnv",
        values.text,
        None,
        READ | WRITE,
        READ | WRITE,
        "Environment variable of the driver with the bearer token.",
        ways=LAUNCHED | {"intakes"},
    ),
    OptionSpec(
        "http.listen",
        values.listen_address,
        None,
        STREAM_READ,
        STREAM_READ,
        "host:port where each intake serves its page, /metrics, /healthz and /readyz over HTTP; "
        "intake i on port + i, port 0 lets the system choose. Beyond loopback it is HTTPS and asks "
        "for a token.",
        ways=LAUNCHED,
    ),
    OptionSpec(
        "http.tokenFile",
        values.path,
        None,
        STREAM_READ,
        STREAM_READ,
        "File on the executors with the tokens, one a line, of those who may look; without it "
        "everybody on loopback, and elsewhere whoever has the token of the spool.",
        ways=LAUNCHED,
    ),
    _SERVICE["logFormat"],
    replace(_SERVICE["transport"], parse=_transport),
    _SERVICE["earlyData"],
    _SERVICE["maxMessageBytes"],
    _SERVICE["maxDatagramBytes"],
)
