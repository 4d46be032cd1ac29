"""Sizes that several packages must agree on."""

from typing import Final

MAX_SEALED_BYTES: Final = 262_144  # SPEC 2.8: 256 KiB
