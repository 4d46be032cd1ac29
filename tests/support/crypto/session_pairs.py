"""Two people, their prekeys, and a session between them as far as it takes no host: no store, no network."""

from dataclasses import replace

from restante.core.session_messages import Accepted, accept_session, decrypt_message, encrypt_message
from restante.core.signed_bundles import sign_bundle, verify_bundle
from restante.crypto.handshake import HANDSHAKE_ENTROPY_BYTES, Agreed, encapsulate, initiate
from restante.crypto.identity import Identity
from restante.crypto.prekeys import PrekeyStore, choose_one_time, prekeys_due, renew_due
from restante.crypto.ratchet import ENCRYPT_ENTROPY_BYTES
from restante.model.ids import Address, MessageId, mint_message_id
from restante.model.prekey_bundle import PrekeyBundle
from restante.policy.padding import unpad
from restante.testing.deterministic import SeededEntropy
from restante.wire.session_message import SessionMessage, decode_session_message

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
ALICE = Identity(b"a" * 32)
BOB = Identity(b"b" * 32)
CAROL = Identity(b"c" * 32)
DICE = SeededEntropy(5)


def made_prekeys(*, now_ms: int = NOW_MS, store: PrekeyStore | None = None, seed: int = 5) -> PrekeyStore:
    before = PrekeyStore() if store is None else store
    needed = prekeys_due(before, now_ms=now_ms).entropy_bytes
    return renew_due(before, entropy=SeededEntropy(seed).draw(needed), now_ms=now_ms)


BOBS_PREKEYS = made_prekeys()
BOBS_BUNDLE = sign_bundle(BOBS_PREKEYS, BOB, now_ms=NOW_MS)
EXHAUSTED = replace(BOBS_PREKEYS, one_time={})


def bundle_of(prekeys: PrekeyStore = BOBS_PREKEYS, owner: Identity = BOB, *, now_ms: int = NOW_MS) -> PrekeyBundle:
    return verify_bundle(sign_bundle(prekeys, owner, now_ms=now_ms), owner=owner.address, now_ms=now_ms)


def opened(
    bundle: PrekeyBundle,
    writer: Identity = ALICE,
    *,
    dice: int = 0,
    generation: int = 1,
) -> Agreed:
    return initiate(
        writer,
        bundle,
        one_time=choose_one_time(bundle, dice),
        encapsulation=encapsulate(bundle),
        entropy=DICE.draw(HANDSHAKE_ENTROPY_BYTES),
        generation=generation,
    )


def no_tag(_covered: bytes) -> bytes:
    """Where a test is not about the sender tag."""
    return bytes(16)


class End:
    """One end of a session: what a host would keep of it."""

    def __init__(self, owner: Address, agreed: Agreed) -> None:
        self._owner = owner
        self.agreed = agreed
        self.ratchet = agreed.ratchet

    def write(self, text: bytes, message_id: MessageId | None = None) -> bytes:
        return unpad(self.write_padded(text, message_id))

    def write_padded(self, text: bytes, message_id: MessageId | None = None) -> bytes:
        is_ours = self.agreed.opening.card.address == self._owner
        self.ratchet, raw = encrypt_message(
            self.ratchet,
            text,
            sender=self._owner,
            session_id=self.agreed.session_id,
            message_id=mint_message_id(DICE.draw(16)) if message_id is None else message_id,
            generation=self.agreed.generation,
            opening=self.agreed.opening if is_ours else None,
            make_tag=no_tag,
            entropy=DICE.draw(ENCRYPT_ENTROPY_BYTES),
        )
        return raw

    def read(self, raw: bytes, *, now_ms: int = NOW_MS) -> bytes:
        self.ratchet, text = decrypt_message(self.ratchet, decode_session_message(raw).message, now_ms=now_ms)
        return text


def accepted(
    raw: bytes | SessionMessage, reader: Identity = BOB, prekeys: PrekeyStore = BOBS_PREKEYS, *, now_ms: int = NOW_MS
) -> Accepted:
    message = raw if isinstance(raw, SessionMessage) else decode_session_message(raw).message
    return accept_session(message, recipient=reader, prekeys=prekeys, now_ms=now_ms)


def both_ends(prekeys: PrekeyStore = BOBS_PREKEYS) -> tuple[End, End, Accepted]:
    """A session that Alice opened and Bob accepted, with what accepting gave."""
    agreed = opened(bundle_of(prekeys))
    alice = End(ALICE.address, agreed)
    first = accepted(alice.write(b"first"), prekeys=prekeys)
    assert first.plaintext == b"first"
    return alice, End(BOB.address, first.agreed), first
