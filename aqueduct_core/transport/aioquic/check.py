"""The private names of aioquic that this package uses, and the check that they are there."""

from __future__ import annotations

import importlib.metadata
import inspect
import os
from functools import cache

from aioquic import _crypto
from aioquic.quic import connection as module
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.congestion.cubic import CubicCongestionControl
from aioquic.quic.congestion.reno import RenoCongestionControl
from aioquic.quic.connection import QuicConnection
from aioquic.quic.crypto import CryptoContext, CryptoPair
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketNumberWindow, QuicPacketPacer, QuicPacketSpace
from aioquic.quic.stream import QuicStream, QuicStreamReceiver, QuicStreamSender
from aioquic.tls import Context as TlsContext

from aqueduct_core.transport.aioquic.packet_limits import IDLE, USEFUL

SUPPORTED = ((1, 7), (1, 8))
"""Versions of aioquic from the first to before the second."""

PROVEN = {"1.7.2"}
"""Versions whose whole behaviour the fast paths of sending and receiving were compared with."""
SWITCH = "AQUEDUCT_FAST_PATHS"
"""The variable of the environment that turns them off, by ``0``."""

METHODS = {
    "_alpn_handler": ("self", "alpn_protocol"),
    "_close_begin": ("self", "is_initiator", "now"),
    "_connect": ("self", "now"),
    "_find_network_path": ("self", "addr"),
    "_flush_builder": ("self", "builder", "network_path", "peer_cid", "now"),
    "_get_or_create_stream": ("self", "frame_type", "stream_id"),
    "_get_or_create_stream_for_send": ("self", "stream_id"),
    "_handle_ack_frame": ("self", "context", "frame_type", "buf"),
    **dict.fromkeys((*USEFUL, *IDLE), ("self", "context", "frame_type", "buf")),
    "_idle_timeout": ("self",),
    "_initialize": ("self", "peer_cid"),
    "_on_connection_limit_delivery": ("self", "delivery", "limit"),
    "_on_max_stream_data_delivery": ("self", "delivery", "stream"),
    "_replenish_connection_ids": ("self",),
    "_send_probe": ("self",),
    "_serialize_transport_parameters": ("self",),
    "_parse_transport_parameters": ("self", "data", "from_session_ticket"),
    "_payload_received": ("self", "context", "plain", "crypto_frame_required"),
    "_unblock_streams": ("self", "is_unidirectional"),
    "_update_traffic_key": ("self", "direction", "epoch", "cipher_suite", "secret"),
    "_write_ack_frame": ("self", "builder", "space", "now"),
    "_write_application": ("self", "builder", "network_path", "now"),
    "_write_connection_limits": ("self", "builder", "space"),
    "_write_datagram_frame": ("self", "builder", "data", "frame_type"),
    "_write_stream_limits": ("self", "builder", "space", "stream"),
}
"""Methods of ``QuicConnection`` that are overridden or called, with their parameters."""

CONNECTION = """
_ack_delay _ack_eliciting_sent_since_receipt _close_at _close_event _close_pending _configuration
_crypto_streams _cryptos _datagrams_pending _events _handshake_complete _handshake_confirmed
_handshake_done_pending
_logger _loss_at
_host_cids _is_client _local_max_data _loss _local_max_streams_bidi _local_max_streams_uni
_local_max_stream_data_bidi_local
_local_max_stream_data_bidi_remote _local_max_stream_data_uni _local_next_stream_id_bidi
_local_next_stream_id_uni _network_paths _pacing_at _ping_pending _probe_pending _quic_logger
_remote_max_data _remote_max_data_used _remote_max_datagram_frame_size _remote_max_idle_timeout
_remote_max_stream_data_bidi_local _remote_max_stream_data_bidi_remote
_remote_max_stream_data_uni _remote_max_streams_bidi _remote_max_streams_uni
_peer_cid _remote_preferred_address
_retire_connection_ids _spaces _spin_bit _spin_highest_pn _state _streams _streams_blocked_bidi
_max_datagram_size _packet_number _streams_blocked_pending _streams_blocked_uni _streams_queue
_version
"""
LOSS = """
_cc _pacer _pto_count _rtt_initialized _rtt_smoothed _time_of_last_sent_ack_eliciting_packet
spaces
"""
PACER = "bucket_max bucket_time evaluation_time packet_time"
CUBIC = """
_W_est _first_slow_start _max_datagram_size _starting_congestion_avoidance _t_epoch
additive_increase_factor congestion_window last_ack rtt ssthresh
"""
RENO = "_congestion_recovery_start_time _congestion_stash _max_datagram_size congestion_window"
STREAM = """
is_blocked max_stream_data_local max_stream_data_local_sent max_stream_data_remote
receiver sender stream_id
"""
SENDER = """
_acked _buffer _buffer_fin _buffer_start _buffer_stop _pending _pending_eof _reset_error_code
buffer_is_empty highest_offset is_finished reset_pending
"""
RECEIVER = "_final_size _stop_error_code highest_offset is_finished stop_pending"
SPACE = """
ack_at ack_eliciting_in_flight ack_queue discarded expected_packet_number largest_acked_packet
largest_received_packet largest_received_time received_packets sent_packets
"""
WINDOW = "_size"
BUILDER = "_flight_bytes _packet"
TLS = """
_cadata _cafile _capath _max_early_data _peer_certificate _peer_certificate_chain _server_name
alpn_negotiated early_data_accepted handshake_extensions
"""
CRYPTO = "aead hp key_phase"
KEYS = "recv send"
AEAD = "_aead _iv"
PROTECTION = "_encryptor _is_chacha20"


def fast_paths() -> bool:
    """Whether packets go the short ways of ``send`` and ``receive``; else aioquic handles all."""
    return os.environ.get(SWITCH) != "0" and _version() in PROVEN


@cache
def _version() -> str:
    return importlib.metadata.version("aioquic")


def check() -> None:
    """Raise ``ImportError`` for an aioquic that this package was not written for."""
    version = importlib.metadata.version("aioquic")
    first, before = (".".join(map(str, bound)) for bound in SUPPORTED)
    found = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    problems = []
    if not SUPPORTED[0] <= found < SUPPORTED[1]:
        problems.append("the version is outside that range")
    for name, parameters in METHODS.items():
        method = getattr(QuicConnection, name, None)
        if method is None or tuple(inspect.signature(method).parameters) != parameters:
            problems.append(f"QuicConnection.{name} has changed")
    key = bytes(16)
    for instance, names in (
        (QuicConnection(configuration=QuicConfiguration(is_client=True)), CONNECTION),
        (QuicConnection(configuration=QuicConfiguration(is_client=True))._loss, LOSS),
        (QuicStream(stream_id=0), STREAM),
        (QuicStreamSender(0, True), SENDER),
        (QuicStreamReceiver(0, True), RECEIVER),
        (QuicPacketSpace(), SPACE),
        (QuicPacketNumberWindow(), WINDOW),
        (
            QuicPacketBuilder(
                host_cid=b"", peer_cid=b"", version=1, is_client=True, max_datagram_size=1_200
            ),
            BUILDER,
        ),
        (TlsContext(is_client=True), TLS),
        (CryptoContext(), CRYPTO),
        (CryptoPair(), KEYS),
        (QuicPacketPacer(max_datagram_size=1_200), PACER),
        (CubicCongestionControl(max_datagram_size=1_200), CUBIC),
        (RenoCongestionControl(max_datagram_size=1_200), RENO),
        (_crypto.AEAD(b"aes-128-gcm", key, bytes(12)), AEAD),
        (_crypto.HeaderProtection(b"aes-128-ecb", key), PROTECTION),
    ):
        present = vars(instance)
        problems += [
            f"{type(instance).__name__} has no {name}"
            for name in names.split()
            if name not in present
        ]
    if len(vars(QuicStream(stream_id=0))) != len(STREAM.split()):
        problems.append("QuicStream has more attributes")
    if inspect.getsource(module).count("_streams.values()") != 1:
        problems.append("QuicConnection walks its streams in a new place")
    if problems:
        raise ImportError(
            f"aioquic {version} does not fit: {'; '.join(problems)}. "
            f"Install aioquic from {first} to before {before}"
        )
