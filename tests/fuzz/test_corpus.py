"""Every input of the corpus and every seed through the fuzzing targets, without the fuzzer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aqueduct_core.aqueduct.ingress import Ingress
from aqueduct_core.aqueduct.wire import codec
from aqueduct_core.aqueduct.wire.frames import SentUnreliable
from aqueduct_core.primitives import varint
from aqueduct_core.primitives.number_set import NumberSet
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.primitives.reassembly import Reassembly
from aqueduct_core.quicr.media.assembly import Assembler
from aqueduct_core.quicr.media.progress import MediaProgress
from aqueduct_core.quicr.media.reception import Reception
from aqueduct_core.quicr.relay.relay import Relay
from aqueduct_core.quicr.transactions import Transaction
from aqueduct_core.quicr.wire.codec import MessageReader
from aqueduct_core.telehash.receiving import ReceivingHalf
from aqueduct_core.telehash.sending import SendingHalf
from aqueduct_core.telehash.wire import channel_packets
from aqueduct_core.transport.aioquic.sent_ranges import SentRanges
from aqueduct_core.transport.aioquic.streams import StreamReceiver
from tests.fuzz.byte_source import ByteSource
from tests.fuzz.seeds import seeds
from tests.fuzz.targets import CORPUS, TARGETS, target
from tests.support.rules import rule


@rule("AQ-SEQ-9", "AQ-ERR-1", "AQ-ERR-2", "AQ-SEQ-7", "Q-3", "Q-4", "Q-5", "P-1")
@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_holds(name: str) -> None:
    run = target(name)
    files = sorted((CORPUS / name).iterdir())
    assert len(files) >= 10
    for path in files:
        assert path.stat().st_size <= 4096, f"{path.name} is not minimal"
        _run(run, path.read_bytes(), f"corpus/{name}/{path.name}")


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds_hold(name: str) -> None:
    run = target(name)
    for seed, data in seeds(name):
        _run(run, data, seed)


def _run(run: Callable[[bytes], None], data: bytes, name: str) -> None:
    try:
        run(data)
    except Exception as found:
        pytest.fail(f"{name}: {type(found).__name__}: {found}")


def _breaks(name: str) -> bool:
    try:
        for _, data in seeds(name):
            target(name)(data)
        for path in sorted((CORPUS / name).iterdir()):
            target(name)(path.read_bytes())
    except Exception:
        return True
    return False


def test_a_wrong_decoder_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The targets must be able to say no."""

    def greedy(data: bytes, pos: int, end: int) -> tuple[SentUnreliable, int]:
        count, pos = varint.decode(data, pos, end)
        return SentUnreliable(count), pos + 1

    monkeypatch.setattr(codec, "decode_sent_unreliable", greedy)
    assert _breaks("codec")
    assert _breaks("grammar")


@pytest.mark.parametrize("name", ["engine", "operations"])
def test_an_internal_error_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Ingress, stream_id: int) -> None:
        raise KeyError(stream_id)

    monkeypatch.setattr(Ingress, "stream_reset", broken)
    assert _breaks(name)


@pytest.mark.parametrize(
    ("name", "part", "method", "wrong"),
    [
        ("reassembly", Reassembly, "_stretches", 1),
        ("ranges", SentRanges, "bounds", range(1)),
        ("ranges", RangeSet, "covers", True),
        ("ranges", NumberSet, "missing", []),
        ("ranges", StreamReceiver, "handle_frame", None),
        ("quicr_codec", MessageReader, "read", []),
        ("quicr_engine", MessageReader, "discard", 0),
        ("quicr_engine", Transaction, "consume", None),
        ("quicr_engine", Transaction, "lost", None),
        ("quicr_relay", Relay, "take_dial", True),
        ("quicr_relay", Relay, "wake_at", 0.0),
        ("telehash_engine", ReceivingHalf, "missing", [1] * 101),
        ("telehash_engine", ReceivingHalf, "clear", None),
        ("telehash_engine", SendingHalf, "on_ack", True),
        ("media", MediaProgress, "_extend", None),
        ("media", MediaProgress, "note_previous", None),
        ("media", Assembler, "add", None),
        ("media", Reception, "_make_room", None),
        ("media", Reception, "_add_gap", None),
    ],
)
def test_a_wrong_answer_is_found(
    name: str, part: type, method: str, wrong: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, method, lambda *given: wrong)
    assert _breaks(name)


def test_bytes_that_are_used_up_give_the_first_choice() -> None:
    source = ByteSource(b"\x05\x02ab")
    assert source.below(4) == 1
    assert source.block() == b"ab"
    assert source.left == 0
    assert (source.byte(), source.flag(), source.choice("xy"), source.rest()) == (
        0,
        False,
        "x",
        b"",
    )


def test_a_wrong_reading_of_telehash_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_packets, "_is_number", lambda value: isinstance(value, int))
    assert _breaks("telehash_codec")
