"""The proofs of one connection, each made and checked once (SPEC 6.5, 7.4).

A proof signs the connection, the frame type and the entry. Polling again with the same entry therefore needs no new
signature, and an entry that equals a checked one, signature included, needs no second check.
"""

from collections.abc import Callable, Sequence
from typing import Final

from restante.core.mesh_proofs.reading import is_proved, prove_entry
from restante.crypto.blinded_keys import SIGNING_ENTROPY_BYTES, BlindedSigner
from restante.wire.frames.mesh_reading import MAX_FETCH_ENTRIES, FetchEntry
from restante.wire.frames.mesh_types import MeshFrameType

MOST_KEPT: Final = MAX_FETCH_ENTRIES
"""As many as one request has. Strangers decide how many proofs a node sees, so it keeps few. The oldest go first."""


class OwnProofs:
    """What the owner of an inbox signs on one connection, as the client makes it."""

    __slots__ = ("_challenge", "_connection", "_made")

    def __init__(self, *, challenge: bytes, connection: bytes) -> None:
        self._challenge = challenge
        self._connection = connection
        self._made: dict[tuple[MeshFrameType, bytes, int], FetchEntry] = {}

    def entry(
        self, signer: BlindedSigner, bucket: int, frame_type: MeshFrameType, *, draw: Callable[[int], bytes]
    ) -> FetchEntry:
        """Return the proved entry that lists the whole bucket. `draw` gives random bytes for a new signature."""
        asked = frame_type, signer.public_key, bucket
        found = self._made.get(asked)
        if found is None:
            found = self._made[asked] = prove_entry(
                signer,
                FetchEntry(blinded=signer.public_key, bucket=bucket, after=0),
                frame_type,
                challenge=self._challenge,
                connection=self._connection,
                entropy=draw(SIGNING_ENTROPY_BYTES),
            )
            if len(self._made) > MOST_KEPT:
                del self._made[next(iter(self._made))]
        return found


class CheckedProofs:
    """What owners proved on one connection, as the node sees it."""

    __slots__ = ("_challenge", "_checked", "_connection")

    def __init__(self, *, challenge: bytes, connection: bytes) -> None:
        self._challenge = challenge
        self._connection = connection
        self._checked: dict[tuple[MeshFrameType, FetchEntry], None] = {}

    def check_some(self, entries: Sequence[FetchEntry], frame_type: MeshFrameType, *, most: int) -> bool:
        """Check up to `most` entries that were not checked yet. Return whether `are_valid` has little left to do."""
        new = [entry for entry in entries if (frame_type, entry) not in self._checked]
        return not self.are_valid(new[:most], frame_type) or len(new) <= most

    def are_valid(self, entries: Sequence[FetchEntry], frame_type: MeshFrameType) -> bool:
        """Return whether the owners signed every entry on this connection."""
        for entry in entries:
            seen = frame_type, entry
            if seen in self._checked:
                continue
            if not is_proved(entry, frame_type, challenge=self._challenge, connection=self._connection):
                return False
            self._checked[seen] = None
            if len(self._checked) > MOST_KEPT:
                del self._checked[next(iter(self._checked))]
        return True
