"""The options of format ``quicr``: its own ones, and with those of every format its table, the
source of docs/quicr-options.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from aqueduct_core.intake.quicr.media import MAX_URLS, MediaIntake
from aqueduct_core.intake.settings.service import Limits
from aqueduct_core.primitives.settings import settings_of
from aqueduct_core.quicr.media.drop_level import FlagReading
from aqueduct_core.quicr.media.position import MAX_ID
from aqueduct_core.quicr.urls import url_bytes
from aqueduct_spark.options import values
from aqueduct_spark.options.read_specs import READ_SPECS
from aqueduct_spark.options.refusals import bad_value, conflict, missing
from aqueduct_spark.options.source_specs import SOURCE_SPECS, limit_specs
from aqueduct_spark.options.spec import (
    BATCH_WRITE,
    READ,
    STREAM_WRITE,
    WRITE,
    OptionSpec,
    fitted,
)
from aqueduct_spark.options.table import OptionTable, behind
from aqueduct_spark.options.until import UntilIdle
from aqueduct_spark.options.write_specs import WRITE_SPECS

CONTROL_COLUMNS = ("url", "flags", "group_id", "object_id")
"""Columns of a frame to be written that say where and how a row goes; others are its payload."""

LONGEST_URL = 1_024
"""Bytes."""


@dataclass(frozen=True, slots=True)
class QuicrRead:
    """``urls`` are asked for at each endpoint that is dialled; or those that begin with ``prefix``
    (None: URLs are named, or nobody is dialled). ``reading``: what columns make of the flags."""

    urls: tuple[str, ...]
    prefix: str | None
    media: MediaIntake
    reading: FlagReading = "low"

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> QuicrRead:
        urls, prefix = found["url"] or (), found["subscribePrefix"]
        if found["endpoint"] is not None:
            if urls and prefix is not None:
                raise conflict("'url' and 'subscribePrefix' are both set", "Set one of them")
            if not urls and prefix is None:
                raise missing("url", "the media to ask for, or 'subscribePrefix' for all below")
            # only a stream launches intakes; a bounded read has to end
            bounded = found["numIntakes"] is None
            if bounded and prefix is not None and not isinstance(found["until"], UntilIdle):
                raise conflict(
                    "'subscribePrefix' and until=finish: there may always be one more media",
                    "Set until=idle:<duration>, or name them by 'url'",
                )
        if len(urls) > MAX_URLS:
            raise bad_value("url", f"{len(urls)} URLs", f"at most {MAX_URLS} of them")
        return cls(urls, prefix, MediaIntake.of_options(found), found["flagsReading"])


@dataclass(frozen=True, slots=True)
class QuicrWrite:
    """``url`` and ``group`` are those of rows without a column of their own. ``url_per_batch``: of
    a stream, each batch is a media of its own."""

    url: str | None
    group: int
    datagram: bool
    url_per_batch: bool

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> QuicrWrite:
        urls = found["url"]
        if urls is not None and len(urls) != 1:
            raise bad_value(
                "url", ",".join(urls), "one URL, with commas as \\x2c; column url has others"
            )
        if found["payloadFormat"] == "arrow":
            raise bad_value("payloadFormat", "arrow", "binary, text or json: a row is an object")
        return cls(
            None if urls is None else urls[0],
            found["group"] or 0,
            found["delivery"] == "datagram",
            bool(found["urlPerBatch"]),
        )


def _url(text: str) -> str:
    if not 1 <= len(url_bytes(text)) <= LONGEST_URL:
        raise ValueError(f"URLs of 1 to {LONGEST_URL} bytes")
    return text


def _urls(value: str) -> tuple[str, ...]:
    found = tuple(map(_url, values.names(value)))
    if len({url_bytes(each) for each in found}) != len(found):
        raise ValueError("URLs that differ from each other")
    return found


def _prefix(value: str) -> str:
    if len(url_bytes(value)) > LONGEST_URL:
        raise ValueError(f"a prefix of at most {LONGEST_URL} bytes")
    return value


_ASKING: tuple[OptionSpec, ...] = (
    OptionSpec(
        "url",
        _urls,
        None,
        READ | WRITE,
        READ | WRITE,
        "The media to ask for, with commas between them; of a write the one that rows are posted "
        "to, where they have no column url. A backslash is written twice, and a byte that is no "
        "text as \\xNN (a comma in a URL is \\x2c).",
        ways=frozenset({"endpoint"}),
    ),
    OptionSpec(
        "subscribePrefix",
        _prefix,
        None,
        READ,
        READ,
        "Ask for every media whose URL begins so, those that there are and those that come while "
        "the query runs; empty for all. One of url and subscribePrefix is required with endpoint.",
        ways=frozenset({"endpoint"}),
    ),
)
_MEDIA: tuple[OptionSpec, ...] = tuple(
    OptionSpec.of(each, READ | WRITE if each.name == "delivery" else READ)
    for each in settings_of(MediaIntake)
)
_READING = OptionSpec(
    "flagsReading",
    values.choice(*get_args(FlagReading)),
    "low",
    READ,
    READ,
    "Which flags droppable and drop_priority take for those of an object that may be dropped: low, "
    "those with the lowest bit, as the document of QUICR has it; or high, those from 128 on, as "
    "its prototype does.",
    messages_only=True,
    reason="flags go as they are in a row, and a write drops nothing: who drops is a relay, as "
    "its --flags-reading says",
)
_POSTING: tuple[OptionSpec, ...] = (
    OptionSpec(
        "group",
        values.integer(0, MAX_ID),
        None,
        BATCH_WRITE,
        BATCH_WRITE,
        "The group of rows that have no column group_id, 0 by default; of a stream it is the "
        "number of the micro-batch.",
    ),
    OptionSpec(
        "urlPerBatch",
        values.boolean,
        "true",
        STREAM_WRITE,
        STREAM_WRITE,
        "Each micro-batch is a media of its own, under its URL followed by / and the number of the "
        "micro-batch: a media ends with its batch, and at an origin or a relay nothing can follow "
        "its end. false: all under one URL, which an intake (format quicr with listen) can take.",
    ),
)

_NO_TOKEN = "the protocol QUICR has no place for a token: let only those reach the port who may"
_UNUSED = {
    "producers": "a media is known by its URL alone (channels)",
    "writerId": "an object is known by its URL, group and number, whoever sends it",
    "batchId": "the number of a group is given by 'group', or column group_id",
    "idempotence": "objects have their numbers in any case, and are the same when sent again",
    "finish": "a media always ends with its write: only that proves that it has arrived",
    "maxLossRatio": "nothing is lost: datagrams are sent again until they arrive",
}
"""Options of other formats, and why they have no meaning here."""


QUICR_OPTIONS = OptionTable(
    "quicr",
    ("quicr",),
    fitted(
        (
            *behind("spool", SOURCE_SPECS, (*_ASKING, *_MEDIA, _READING)),
            *limit_specs(Limits),
            *READ_SPECS,
            *_POSTING,
            *WRITE_SPECS,
        ),
        unused=_UNUSED,
        no_token=_NO_TOKEN,
        tokenless="A media has no token.",
    ),
    own_read=QuicrRead.of,
    own_write=QuicrWrite.of,
    page="docs/quicr-options.md",
)
