"""How far packets go that nothing protects: this machine, unless the network is said to be trusted.

Whoever is on their way can read them, change them and write packets of its own in the name of any
address. On the loopback interface that is this machine alone; elsewhere it is for the operator to
say that it is as good, by a VPN for instance, and everybody is reminded.
"""

from __future__ import annotations

from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives.host_port import is_loopback
from aqueduct_core.transport.addresses import shown
from aqueduct_core.transport.link import Address

OPTION = "udp.trusted"
"""What says so: of intakes and formats by this name, of `PlainSettings` as ``trusted``, of the
command line as ``--udp-trusted``."""


def check_reach(address: Address, *, trusted: bool) -> None:
    """Raise InvalidOption.BAD_VALUE where packets would leave this machine, and nobody has said
    that they may."""
    if not trusted and not is_loopback(address[0]):
        raise InvalidOption(
            "BAD_VALUE",
            f"plain UDP was asked for at {shown(address)}, which is not a loopback address: "
            "packets would be neither encrypted nor authenticated",
            f"Use QUIC (telehash://), or say that the network is trusted ({OPTION}=true, "
            "--udp-trusted)",
        )


def reach_warning(address: Address) -> str | None:
    """A sentence for logs and the status where that was said; None: only this machine hears it."""
    if is_loopback(address[0]):
        return None
    return (
        f"plain UDP at {shown(address)} is neither encrypted nor authenticated: whoever reaches it "
        "can read packets, change them and send under any address"
    )
