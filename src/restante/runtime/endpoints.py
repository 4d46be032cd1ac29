"""Parse host and port as people write them: `127.0.0.1:7431`, `[::1]:7431`, `relay.example:7431`."""

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from restante.model.errors import Malformed
from restante.model.ids import NODE_KEY_BYTES, node_key
from restante.model.places import RelayPlace

MAX_PORT: Final = 65_535
_KEY_DIGITS: Final = 2 * NODE_KEY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can connect here. No name is resolved; only `localhost` is known."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_endpoint(text: str) -> Endpoint:
    """Parse host and port. An IPv6 address needs brackets; port 0 lets the system choose one."""
    host, separator, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if not separator or not host or (":" in host) != bracketed or not host.isprintable() or " " in host:
        raise Malformed(f"{text!r} is not an endpoint: write host:port, such as 127.0.0.1:7431 or [::1]:7431")
    if not (port.isascii() and port.isdigit() and int(port) <= MAX_PORT):
        raise Malformed(f"{port!r} is not a port: give a number from 0 to {MAX_PORT}")
    return Endpoint(host=host, port=int(port))


def parse_relay_place(text: str) -> RelayPlace:
    """Parse `KEY@HOST:PORT`, as `restante node init` and `node status` print it."""
    digits, separator, place = text.partition("@")
    try:
        key = bytes.fromhex(digits)
    except ValueError:
        key = b""
    if not separator or len(digits) != _KEY_DIGITS or len(key) != NODE_KEY_BYTES:
        raise Malformed(
            f"a relay or node is named KEY@HOST:PORT, its key as {_KEY_DIGITS} hexadecimal digits, "
            "as 'restante node status' shows it"
        )
    endpoint = parse_endpoint(place)
    return RelayPlace(node_key=node_key(key), host=endpoint.host, port=endpoint.port)
