"""Which intake of a query dials which endpoint: settled once, and kept beside their spools.

What came of an endpoint is in the spool of the intake that dials it: the channels that have
finished, and which numbers of the others are stored. So an endpoint stays with its intake, however
many of them share the work later; only one that nobody has is free.

Claims are files of one host, or of a volume that hosts share. What intakes on other hosts hold, the
query knows (each reports it, and the query keeps that in its offsets) and says with each launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.storage.finished_channels import finished_in
from aqueduct_core.intake.storage.layout import named_by_users, number_of
from aqueduct_core.primitives import json_file
from aqueduct_core.primitives.host_port import canonical
from aqueduct_core.spool.disk import Disk

FOLDER = "endpoints"


def claimed(
    directory: Path, endpoints: Sequence[str], intakes: int, elsewhere: Sequence[str] = ()
) -> tuple[str, ...]:
    """Those of ``endpoints`` that the intake of this spool directory is to dial.

    Of those that no intake has, here or ``elsewhere``, it takes its share as one of so many
    ``intakes``; durable when this returns. What it has it keeps, whatever is said of it. The
    intakes of a query may ask at the same time: each endpoint goes to one.

    Raises:
        InvalidOption: BAD_VALUE: the directory has not the name that those of a query have.
        SpoolFailed: CORRUPT, VERSION, FULL, IO.
    """
    number = number_of(directory)
    if number is None:
        raise InvalidOption(
            "BAD_VALUE",
            f"connect.intakes is {intakes}, and {directory} is no spool of an intake of a query",
            "Leave it out where an intake runs on its own: it dials all of its endpoints",
        )
    folder = named_by_users(directory) / FOLDER
    files = _files(folder)
    ours = []
    for place, endpoint in enumerate(endpoints):
        path = files.get(endpoint, folder / claim_name(endpoint))
        holder = _holder(path)
        if holder is None and endpoint not in elsewhere:
            before = _asked_before(directory.parent, endpoint)
            holder = place % intakes if before is None else before
            if holder == number:
                holder = _claim(path, number)
        if holder == number:
            ours.append(endpoint)
    return tuple(ours)


def claims_of(directory: Path) -> tuple[str, ...]:
    """All endpoints that the intake of this spool directory has, in order.

    Raises:
        SpoolFailed: CORRUPT, VERSION, IO.
    """
    number, folder = number_of(directory), named_by_users(directory) / FOLDER
    files = sorted(_files(folder).items())
    return tuple(endpoint for endpoint, path in files if _holder(path) == number)


def claim_name(endpoint: str) -> str:
    """Of the file that says which intake dials the endpoint."""
    return f"{quote(endpoint, safe='')}.json"


def _files(folder: Path) -> dict[str, Path]:
    """The claims by endpoint in its one form; earlier releases named them as they were given."""
    files = sorted(folder.glob("[!.]*.json"))
    return {canonical(unquote(path.stem)): path for path in files}


def _holder(path: Path) -> int | None:
    def parse(content: Mapping[str, Any]) -> int:
        return int(content["intake"])

    remedy = f'Write {{"v": {json_file.VERSION}, "intake": N}} into it, N the intake that dials it'
    return json_file.load(path, parse, remedy)


def _claim(path: Path, number: int) -> int | None:
    """The intake that has it now."""
    try:
        Disk().make_directories(path.parent)
    except OSError as error:
        raise json_file.not_written(path, error) from None
    json_file.create(path, {"intake": number})
    return _holder(path)


def _asked_before(spool: Path, endpoint: str) -> int | None:
    """The intake in whose spool something of the endpoint has finished; earlier releases kept no
    claims."""
    for directory in sorted(spool.iterdir()):
        number = number_of(directory)
        if number is not None and endpoint in finished_in(directory):
            return number
    return None
