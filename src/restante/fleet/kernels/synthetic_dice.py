"""Random draws that are hashes of seed, name and position: the same on any machine, in any order, in any batch."""

import zlib
from typing import Any, Final

import numpy as np
import pyarrow as pa

Longs = np.ndarray[Any, np.dtype[np.int64]]
Words = np.ndarray[Any, np.dtype[np.uint64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


class Dice:
    """Draws for one seed. Equal names and positions give equal draws."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def words(self, name: str, place: Longs) -> Words:
        """Return 64 random bits for each position (splitmix64)."""
        key = _mixed(np.array([(self._seed << 32) ^ zlib.crc32(name.encode())], dtype=np.uint64) * _GOLDEN)
        return _mixed(place.astype(np.uint64) * _GOLDEN + key)

    def uniform(self, name: str, place: Longs) -> Floats:
        """Return a number in [0, 1) for each position."""
        drawn: Floats = (self.words(name, place) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return drawn

    def meets(self, name: str, place: Longs, share: float) -> Flags:
        """Return whether each position belongs to this share of all."""
        drawn: Flags = self.uniform(name, place) < share
        return drawn

    def normal(self, name: str, place: Longs) -> Floats:
        """Return a standard normal number for each position (Box-Muller)."""
        radius = np.sqrt(-2.0 * np.log1p(-self.uniform(f"{name} radius", place)))
        drawn: Floats = radius * np.cos(2.0 * np.pi * self.uniform(f"{name} angle", place))
        return drawn

    def lognormal(self, name: str, place: Longs, *, median: Floats | float, sigma: float) -> Longs:
        """Return whole milliseconds, at least 1."""
        drawn: Longs = np.maximum(1, median * np.exp(sigma * self.normal(name, place))).astype(np.int64)
        return drawn

    def binary(self, name: str, place: Longs, size: int) -> Any:
        """Return `size` bytes for each position, as an Arrow array."""
        return to_binary(self._matrix(name, place, size))

    def uuid4(self, name: str, place: Longs) -> Any:
        """Return a UUIDv4 for each position, as an Arrow array."""
        raw = self._matrix(name, place, 16)
        raw[:, 6] = (raw[:, 6] & 0x0F) | 0x40
        raw[:, 8] = (raw[:, 8] & 0x3F) | 0x80
        return to_binary(raw)

    def _matrix(self, name: str, place: Longs, size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        columns = [self.words(f"{name} {word}", place) for word in range(size // 8)]
        return np.stack(columns, axis=1).view(np.uint8).reshape(len(place), size)


def to_binary(raw: np.ndarray[Any, np.dtype[np.uint8]]) -> Any:
    """Return the rows of a matrix of bytes as an Arrow array of binary values."""
    rows, size = raw.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(size)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(raw))]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


def _mixed(value: Words) -> Words:
    value = (value ^ (value >> np.uint64(30))) * _FIRST
    value = (value ^ (value >> np.uint64(27))) * _SECOND
    return value ^ (value >> np.uint64(31))
