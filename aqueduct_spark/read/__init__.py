"""Reading: what Spark calls for it, in the planner's process and in tasks.

Knows a format by its description alone, and never changes what is stored.
"""

import os


def quiet_grpc() -> None:
    """Called before gRPC is imported, which reads it then: its own lines say nothing that our
    errors do not."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
