"""The event loop in virtual time of ``aqueduct.testing``, as the tests of this project use it."""

from aqueduct.testing.virtual_time import VirtualLoop, let_happen, run_virtually

__all__ = ["VirtualLoop", "let_happen", "run_virtually"]
