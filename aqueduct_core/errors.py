"""Every error that a user can meet, one class per condition.

    AqueductError
    ├── InvalidOption        AQUEDUCT_INVALID_OPTION     yours: an option or argument
    ├── SchemaMismatch       AQUEDUCT_SCHEMA             yours: columns of a frame to write
    ├── SaveModeRefused      AQUEDUCT_SAVE_MODE          yours
    ├── ConnectFailed        AQUEDUCT_CONNECT            the network, or nobody listens there
    ├── TlsFailed            AQUEDUCT_TLS                a certificate
    ├── AuthFailed           AQUEDUCT_AUTH               a token
    ├── VersionMismatch      AQUEDUCT_VERSION_MISMATCH   the peer speaks another revision
    ├── ProtocolViolation    AQUEDUCT_PROTOCOL_VIOLATION the peer; closes that connection only
    ├── DataLoss             AQUEDUCT_DATA_LOSS          asked-for offsets are gone
    ├── SpoolFailed          AQUEDUCT_SPOOL              the durable log or its disk
    ├── IntakeFailed         AQUEDUCT_INTAKE             an intake that cannot be had
    ├── SinkFailed           AQUEDUCT_SINK               rows that could not be delivered
    ├── ChannelEnded         AQUEDUCT_CHANNEL            a channel that did not end by finish
    ├── FinishTimeout        AQUEDUCT_FINISH_TIMEOUT
    ├── MalformedPayload     AQUEDUCT_MALFORMED_PAYLOAD
    └── CheckpointVersion    AQUEDUCT_CHECKPOINT_VERSION

The first line of the text is always
``[AQUEDUCT_CLASS.SUBCLASS] what, with values. What to do. SQLSTATE: xxxxx``
and never holds a secret or payload bytes. What a peer wrote is escaped in it from its birth, so it
is one line wherever it is shown. All of them can be pickled, so the same object travels from an
executor to the driver.
"""

from __future__ import annotations

from typing import ClassVar

from aqueduct_core.escape import escaped

LONGEST_SENTENCE = 4_000
"""Characters of what is wrong, and of what to do: longer than any of ours, short for a log."""


class AqueductError(Exception):
    """The base of all errors of this project.

    Args:
        subclass: one of ``subclasses`` of the class, or "" where it has none.
        what: what is wrong, with option names, values and ids; a sentence without full stop.
        remedy: what the reader should do; a sentence without full stop.
    """

    condition: ClassVar[str] = "AQUEDUCT"
    subclasses: ClassVar[dict[str, str]] = {"": "XX000"}

    def __init__(self, subclass: str, what: str, remedy: str) -> None:
        if subclass not in self.subclasses:
            raise ValueError(f"{self.condition} has no subclass {subclass!r}")
        self.subclass = subclass
        self.what = escaped(what, LONGEST_SENTENCE)
        self.remedy = escaped(remedy, LONGEST_SENTENCE)
        super().__init__(subclass, self.what, self.remedy)

    @property
    def name(self) -> str:
        """The condition with its subclass, for instance ``AQUEDUCT_CONNECT.REFUSED``."""
        return f"{self.condition}.{self.subclass}" if self.subclass else self.condition

    @property
    def sqlstate(self) -> str:
        return self.subclasses[self.subclass]

    def __str__(self) -> str:
        return f"[{self.name}] {self.what}. {self.remedy}. SQLSTATE: {self.sqlstate}"


class InvalidOption(AqueductError):
    """An option or argument is missing, wrong, or at odds with another one; nothing was begun."""

    condition = "AQUEDUCT_INVALID_OPTION"
    subclasses: ClassVar[dict[str, str]] = {
        "UNKNOWN": "42616",
        "MISSING": "42616",
        "CONFLICT": "42616",
        "BAD_VALUE": "42616",
        "NOT_FOR_QUERY_TYPE": "42616",
    }


class SchemaMismatch(AqueductError):
    """The columns of a frame are not those that can be written."""

    condition = "AQUEDUCT_SCHEMA"
    subclasses: ClassVar[dict[str, str]] = {
        "COLUMN_MISSING": "42703",
        "COLUMN_TYPE": "42804",
        "COLUMN_UNKNOWN": "42703",
        "REQUIRED": "42601",
    }


class SaveModeRefused(AqueductError):
    """A save mode that a stream of messages cannot have, such as overwrite."""

    condition = "AQUEDUCT_SAVE_MODE"
    subclasses: ClassVar[dict[str, str]] = {"": "0A000"}


class ConnectFailed(AqueductError):
    """No connection came about: nobody listens there, nobody answers, or not in time."""

    condition = "AQUEDUCT_CONNECT"
    subclasses: ClassVar[dict[str, str]] = {
        "REFUSED": "08001",
        "TIMEOUT": "08001",
        "DNS": "08001",
        "NO_REPLY": "08001",
        "NO_MEMORY": "53200",
    }


class TlsFailed(AqueductError):
    """The certificate of the server is expired, for another name, or of an unknown authority."""

    condition = "AQUEDUCT_TLS"
    subclasses: ClassVar[dict[str, str]] = {
        "EXPIRED": "08001",
        "UNKNOWN_CA": "08001",
        "NAME_MISMATCH": "08001",
    }


class AuthFailed(AqueductError):
    """The server refused our token, or wants one that was not given."""

    condition = "AQUEDUCT_AUTH"
    subclasses: ClassVar[dict[str, str]] = {"REJECTED": "28000", "MISSING": "28000"}


class VersionMismatch(AqueductError):
    """The peer speaks another revision of the protocol."""

    condition = "AQUEDUCT_VERSION_MISMATCH"
    subclasses: ClassVar[dict[str, str]] = {"": "08P01"}


class ProtocolViolation(AqueductError):
    """The peer broke the protocol; only its connection is closed."""

    condition = "AQUEDUCT_PROTOCOL_VIOLATION"
    subclasses: ClassVar[dict[str, str]] = {"": "08P01"}


class DataLoss(AqueductError):
    """What was asked for is not in the spool any more, or never was."""

    condition = "AQUEDUCT_DATA_LOSS"
    subclasses: ClassVar[dict[str, str]] = {
        "RANGE_GONE": "22000",
        "SPOOL_REPLACED": "22000",
        "OFFSET_AHEAD": "22000",
        "SKIPPED": "22000",
    }


class SpoolFailed(AqueductError):
    """The durable log of an intake, or the disk below it, cannot be used."""

    condition = "AQUEDUCT_SPOOL"
    subclasses: ClassVar[dict[str, str]] = {
        "FULL": "53100",
        "IO": "58030",
        "FORBIDDEN": "42501",
        "CORRUPT": "XX001",
        "LOCKED": "55006",
        "CURSOR_IN_USE": "55006",
        "VERSION": "0A000",
    }


class IntakeFailed(AqueductError):
    """An intake did not start, or cannot be reached."""

    condition = "AQUEDUCT_INTAKE"
    subclasses: ClassVar[dict[str, str]] = {"LAUNCH_TIMEOUT": "57014", "UNREACHABLE": "08006"}


class SinkFailed(AqueductError):
    """Messages could not be delivered, or it is not known whether they were."""

    condition = "AQUEDUCT_SINK"
    subclasses: ClassVar[dict[str, str]] = {
        "ACK_TIMEOUT": "57014",
        "RECEIVER_CLOSED": "08006",
        "LOST_IN_TRANSIT": "08006",
        "CONNECTION_LOST": "08006",
        "CANCELLED": "57014",
        "LOSS_ABOVE_LIMIT": "22000",
        "MESSAGE_TOO_LARGE": "54000",
        "NO_RECEIPTS": "0A000",
        "ROW_REPEATED": "23505",
        "FENCED": "55006",
        "ROWS_MISSING": "XX000",
        "NOT_REPEATABLE": "22000",
    }


class ChannelEnded(AqueductError):
    """A channel ended otherwise than by a finish, so something of it may be missing."""

    condition = "AQUEDUCT_CHANNEL"
    subclasses: ClassVar[dict[str, str]] = {
        "CANCELLED": "57014",
        "FAILED": "57014",
        "LOST": "08006",
        "OVERFLOW": "54000",
        "NO_REPLY": "02000",
        "TIMEOUT": "57014",
        "TOO_LARGE": "54000",
    }


class FinishTimeout(AqueductError):
    """The channels of a bounded read did not finish in time."""

    condition = "AQUEDUCT_FINISH_TIMEOUT"
    subclasses: ClassVar[dict[str, str]] = {"": "57014"}


class MalformedPayload(AqueductError):
    """A payload is not of the form that the query expects."""

    condition = "AQUEDUCT_MALFORMED_PAYLOAD"
    subclasses: ClassVar[dict[str, str]] = {"": "22023"}


class CheckpointVersion(AqueductError):
    """A checkpoint was written by a newer version."""

    condition = "AQUEDUCT_CHECKPOINT_VERSION"
    subclasses: ClassVar[dict[str, str]] = {"": "0A000"}
