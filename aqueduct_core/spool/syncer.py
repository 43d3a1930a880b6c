"""The process that waits for the disk, so that the owner of a spool never does.

Run by file name with ``-I -S``: it imports next to nothing and starts in some milliseconds.
``argv[1]`` is a Unix SOCK_SEQPACKET socket. Requests are ``<cQ``: ``o`` brings a segment's file
and its directory as descriptors, and what follows is about that segment; ``s`` asks for a group to
be made durable. Answers are ``<Qi``: all groups up to that one are durable (0), or the disk failed
with that errno.

Ends when the owner's end of the socket closes, however the owner died, or after a failure: no file
of a disk that failed once is synced again.
"""

import os
import signal
import socket
import struct
import sys

REQUEST = struct.Struct("<cQ")
ANSWER = struct.Struct("<Qi")
_FDS = struct.Struct("@ii")
_ROOM = socket.CMSG_LEN(_FDS.size)


def serve(port: socket.socket) -> None:
    file = directory = -1
    fresh = False
    wanted = 0

    def settle() -> bool:
        """Make what is wanted durable and say so; false when the disk failed."""
        nonlocal wanted, fresh
        try:
            os.fdatasync(file)
            if fresh:
                # the name of a new segment has to be as durable as what is in it
                os.fsync(directory)
                fresh = False
        except OSError as error:
            port.send(ANSWER.pack(wanted, error.errno or 5))
            return False
        port.send(ANSWER.pack(wanted, 0))
        wanted = 0
        return True

    while True:
        try:
            # socket.recv_fds drops its flags in some releases of Python
            data, ancillary, _, _ = port.recvmsg(
                REQUEST.size, _ROOM, socket.MSG_DONTWAIT if wanted else 0
            )
        except BlockingIOError:
            # all that was asked so far is one sync
            if not settle():
                return
            continue
        if not data:
            return
        verb, group = REQUEST.unpack(data)
        if verb == b"s":
            wanted = group
            continue
        if wanted and not settle():
            return
        for fd in (file, directory):
            if fd >= 0:
                os.close(fd)
        file, directory = _FDS.unpack(ancillary[0][2])
        fresh = True


def main() -> None:
    # the owner decides when this ends: a signal to its whole process group must not cut off its
    # last group
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as port:
        try:
            serve(port)
        except (BrokenPipeError, ConnectionResetError):
            pass


if __name__ == "__main__":
    main()
