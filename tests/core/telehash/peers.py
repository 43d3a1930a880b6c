"""Ends that do as two others do, and as the document does not say: scripted, to be met.

They are engines to a link in memory. Each sends what its `say` is given, is done with every packet
as it comes, and keeps what came in ``got``; `problems` are what it was sent and should not have
been.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from typing import Any

from aqueduct_core.engine.actions import Action, SendDatagram
from aqueduct_core.engine.engine import Footprint
from aqueduct_core.engine.inputs import Datagram, Input, LinkLost

Head = dict[str, Any]


class ScriptedPeer(ABC):
    """What both have in common. ``end_channels``: a channel of theirs ends with its last packet."""

    def __init__(self) -> None:
        self.closed: LinkLost | None = None
        self.got: dict[int, list[bytes]] = defaultdict(list)
        self.ended: set[int] = set()
        self.failed: dict[int, str] = {}
        self.problems: list[str] = []
        self.types: dict[int, str] = {}
        self.unacked: dict[int, dict[int, tuple[Head, bytes]]] = defaultdict(dict)
        self.next_seq: dict[int, int] = defaultdict(int)
        self.held: dict[int, dict[int, tuple[Head, bytes]]] = defaultdict(dict)
        self._out: list[bytes] = []
        self._tokens = 0

    def handle(self, input: Input, now: float) -> None:
        match input:
            case LinkLost():
                self.closed = input
            case Datagram(data):
                size = int.from_bytes(data[:2])
                head = json.loads(data[2 : 2 + size])
                channel = head["c"]
                if "type" in head and channel not in self.types:
                    self.types[channel] = head["type"]
                if channel in self.types and channel not in self.failed:
                    self.on_packet(channel, head, data[2 + size :], now)

    @abstractmethod
    def on_packet(self, channel: int, head: Head, body: bytes, now: float) -> None:
        """A packet of a channel that is known and has not failed."""

    def tick(self, now: float) -> None:
        """Without timers of its own."""

    @property
    def wake_at(self) -> float | None:
        return None

    @property
    def footprint(self) -> Footprint:
        return Footprint(0)

    def actions(self) -> list[Action]:
        out, self._out = self._out, []
        actions: list[Action] = []
        for data in out:
            self._tokens += 1
            actions.append(SendDatagram(data, self._tokens))
        return actions

    def events(self) -> list[Any]:
        return []

    def write(self, head: Head, body: bytes = b"") -> None:
        text = json.dumps(head, separators=(",", ":")).encode()
        self._out.append(len(text).to_bytes(2) + text + body)

    def fail(self, channel: int, err: str) -> None:
        self.failed[channel] = err
        self.write({"err": err, "c": channel})

    def take_in_order(self, channel: int) -> None:
        got, held = self.got[channel], self.held[channel]
        while len(got) in held:
            head, body = held.pop(len(got))
            if channel in self.ended:
                self.problems.append(f"content behind the end of {channel}")
            got.append(body)
            if head.get("end"):
                self.ended.add(channel)


class PeerLikeJs(ScriptedPeer):
    """Acks a second after a packet and with all that it sends, keeps 50 out of order, names them in
    ``miss``, which may be empty; sends its last packet again every two seconds, for ten; hides its
    end under ``_``; and acks behind an ``err``."""

    BUFFER = 50

    def __init__(self) -> None:
        super().__init__()
        self._ack_at: dict[int, float] = {}
        self._resend_at: dict[int, float] = {}
        self._sent_at: dict[int, float] = {}
        self._resent: dict[tuple[int, int], float] = {}
        self._highest_ack: dict[int, float] = defaultdict(lambda: -1.0)

    def say(self, channel: int, body: bytes, now: float, *, end: bool = False) -> None:
        seq = self.next_seq[channel]
        self.next_seq[channel] += 1
        head: Head = {"_": {"end": True} if end and not body else {}}
        if not seq:
            head["type"] = self.types[channel] = "_js"
        if end and body:
            head["end"] = True
        head |= {"seq": seq, "c": channel}
        self.unacked[channel][seq] = (head, body)
        self._sent_at[channel] = now
        self._send(channel, seq)
        self._resend_at[channel] = now + 2.0

    def on_packet(self, channel: int, head: Head, body: bytes, now: float) -> None:
        if head.get("err"):
            self.failed[channel] = head["err"]
            self.held[channel].clear()
            return
        ack, miss = head.get("ack"), head.get("miss", [])
        if ack is not None and ack > self.next_seq[channel]:
            self.problems.append(f"ack {ack} of {channel}, where {self.next_seq[channel]} is next")
            return
        if miss or (ack is not None and ack > self._highest_ack[channel]):
            # what is compared with a number that is none is never higher
            self._highest_ack[channel] = float("nan") if ack is None else ack
            for seq in [each for each in self.unacked[channel] if ack is not None and each <= ack]:
                del self.unacked[channel][seq]
            for seq in miss[:100]:
                rested = now >= self._resent.get((channel, seq), -1.0) + 1.0
                if seq in self.unacked[channel] and rested:
                    self._resent[channel, seq] = now
                    self._send(channel, seq)
        if "seq" not in head:
            return
        seq = head["seq"]
        self._ack_at.setdefault(channel, now + 1.0)
        done = len(self.got[channel])
        if done <= seq <= done - 1 + self.BUFFER:
            self.held[channel][seq] = (head, body)
            self.take_in_order(channel)

    def _acks(self, channel: int, *, inside: bool) -> Head:
        head: Head = {}
        got, held = self.got[channel], self.held[channel]
        if got:
            head["ack"] = len(got) - 1
        if held:
            head["miss"] = [s for s in range(len(got), max(held)) if s not in held]
        elif inside:
            head["miss"] = []
        return head

    def _send(self, channel: int, seq: int) -> None:
        head, body = self.unacked[channel][seq]
        self.write(head | self._acks(channel, inside=True), body)

    @property
    def wake_at(self) -> float | None:
        return min((*self._ack_at.values(), *self._resend_at.values()), default=None)

    def tick(self, now: float) -> None:
        for channel in [each for each, at in self._ack_at.items() if at <= now]:
            del self._ack_at[channel]
            if acks := self._acks(channel, inside=False):
                self.write(acks | {"c": channel})  # even behind an err
        for channel in [each for each, at in self._resend_at.items() if at <= now]:
            del self._resend_at[channel]
            if not self.unacked[channel] or channel in self.failed or channel in self.ended:
                continue
            if now - self._sent_at[channel] > 10.0:
                self.failed[channel] = "timeout"
                continue
            self._send(channel, max(self.unacked[channel]))
            self._resend_at[channel] = now + 2.0


class PeerLikeC(ScriptedPeer):
    """Has no timers. Keeps 32 of each direction; acks what it takes out, not what came before; asks
    for up to ten, also for what was never sent, and sends again what it is asked for only with an
    ack that is new, with the ack of the first time."""

    WINDOW = 32

    def __init__(self) -> None:
        super().__init__()
        self._next_ack: dict[int, int] = defaultdict(int)

    def room(self, channel: int) -> int:
        return self.WINDOW - len(self.unacked[channel])

    def say(self, channel: int, body: bytes, now: float, *, end: bool = False) -> None:
        seq = self.next_seq[channel]
        self.next_seq[channel] += 1
        head: Head = {"c": channel, "seq": seq}
        if not seq:
            head["type"] = self.types[channel] = "_c"
        if end:
            head["end"] = True
        head |= self._acks(channel)
        self.unacked[channel][seq] = (head, body)
        self.write(head, body)

    def on_packet(self, channel: int, head: Head, body: bytes, now: float) -> None:
        if head.get("err"):
            self.failed[channel] = head["err"]
            self.write({"c": channel} | self._acks(channel))
            return
        ack = head.get("ack")
        if ack is not None and self._next_ack[channel] <= ack < self.next_seq[channel]:
            for seq in range(self._next_ack[channel], ack + 1):
                del self.unacked[channel][seq]
            self._next_ack[channel] = ack + 1
            for seq in head.get("miss", []):
                if seq in self.unacked[channel]:
                    self.write(*self.unacked[channel][seq])
        if "seq" not in head:
            return
        seq = head["seq"]
        done = len(self.got[channel])
        if seq >= done + self.WINDOW:
            self.problems.append(f"seq {seq} of {channel} beyond the window")
        elif seq >= done and seq not in self.held[channel]:
            self.held[channel][seq] = (head, body)
            self.take_in_order(channel)
            if acks := self._acks(channel):
                self.write({"c": channel} | acks)

    def _acks(self, channel: int) -> Head:
        got, held = self.got[channel], self.held[channel]
        if not got:
            return {}
        acks: Head = {"ack": len(got) - 1}
        if held:
            beyond = [seq for seq in range(len(got), len(got) + self.WINDOW) if seq not in held]
            acks["miss"] = beyond[:10]
        return acks
