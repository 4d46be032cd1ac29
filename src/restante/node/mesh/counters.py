"""What the mesh family of a node counts: numbers only (docs/safe-logging.md)."""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class MeshCounters:
    """What the mesh family counts; numbers only."""

    puts_stored: int = 0
    wrong_bucket: int = 0
    not_responsible: int = 0
    blobs_served: int = 0
    blobs_deleted: int = 0
    blobs_damaged: int = 0
    blobs_repaired: int = 0
    blobs_collected: int = 0
