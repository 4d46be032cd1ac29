"""Where the events of a report come from, and how sure it is (SPEC 13.1)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_DIGITS_IN_EVENT_IDS: Final = 16
"""Of a writer, as hex: an event id begins with eight bytes of it (model/ids)."""


class Certainty(StrEnum):
    """How much of a report is from segments that enrolled keys signed."""

    VERIFIED = "verified"
    PARTLY_VERIFIED = "partly verified"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentClaim:
    """What the manifest of a segment says, signed by an enrolled key. Hashes and key are hex."""

    segment: str
    writer: str
    first: int
    last: int
    digest: str
    previous: str | None
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingSegment:
    """A segment that its writer shipped before `before`, and that is not there."""

    writer: str
    before: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """How many segments are signed by enrolled keys, and what does not fit together.

    `contested` are writers whose event ids two enrolled keys claim; their segments count as unverified.
    """

    verified: int = 0
    unverified: int = 0
    missing: tuple[MissingSegment, ...] = ()
    contested: tuple[str, ...] = ()
    verified_files: frozenset[str] = frozenset()

    @property
    def certainty(self) -> Certainty:
        if self.verified and not self.unverified:
            return Certainty.VERIFIED
        return Certainty.PARTLY_VERIFIED if self.verified else Certainty.UNVERIFIED


def provenance_of(claims: Iterable[SegmentClaim | None]) -> Provenance:
    """Judge the segments of a report; None stands for one that no enrolled key signed."""
    every = list(claims)
    signed = [claim for claim in every if claim is not None]
    contested = _contested(signed)
    verified = [claim for claim in signed if claim.writer not in contested]
    return Provenance(
        verified=len(verified),
        unverified=len(every) - len(verified),
        missing=_missing(signed),
        contested=tuple(sorted(contested)),
        verified_files=frozenset(claim.segment for claim in verified),
    )


def _contested(claims: Sequence[SegmentClaim]) -> frozenset[str]:
    """Also writers that have only the beginning in common: their events have the same ids and contradict each other."""
    keys: dict[str, set[str]] = {}
    for claim in claims:
        keys.setdefault(claim.writer[:_DIGITS_IN_EVENT_IDS], set()).add(claim.key)
    return frozenset(claim.writer for claim in claims if len(keys[claim.writer[:_DIGITS_IN_EVENT_IDS]]) > 1)


def _missing(claims: Sequence[SegmentClaim]) -> tuple[MissingSegment, ...]:
    """The ends of chains that name a manifest that is not there. A segment shipped twice has one predecessor twice."""
    known = {claim.digest for claim in claims}
    return tuple(
        MissingSegment(writer=claim.writer, before=claim.segment)
        for claim in sorted(claims, key=lambda one: (one.writer, one.first, one.last))
        if claim.previous is not None and claim.previous not in known
    )
