"""crypto/sender_tag: contacts are told from outsiders without any session (SPEC 8.11)."""

import pytest

from restante.crypto.identity import Identity
from restante.crypto.sender_tag import SENDER_TAG_BYTES, SenderTags
from restante.model.errors import RemoteProtocolError
from support.crypto.session_pairs import ALICE, BOB, CAROL
from support.spec.clauses import clause
from support.wire.codec_properties import flipped

MESSAGE = b"header and ciphertext"
TAG = SenderTags(ALICE).make(MESSAGE, recipient=BOB.card)


@clause("8.11")
def test_the_recipient_recognises_its_contact() -> None:
    assert len(TAG) == SENDER_TAG_BYTES
    assert SenderTags(BOB).is_valid(TAG, MESSAGE, sender=ALICE.card)


@clause("8.11")
def test_a_tag_is_for_one_sender_one_recipient_and_one_direction() -> None:
    assert not SenderTags(BOB).is_valid(TAG, MESSAGE, sender=CAROL.card)
    assert not SenderTags(CAROL).is_valid(TAG, MESSAGE, sender=ALICE.card)
    assert not SenderTags(ALICE).is_valid(TAG, MESSAGE, sender=BOB.card)


@clause("8.11")
def test_every_bit_of_tag_and_message_counts() -> None:
    tags = SenderTags(BOB)
    assert not any(tags.is_valid(flipped(TAG, bit), MESSAGE, sender=ALICE.card) for bit in range(len(TAG) * 8))
    assert not any(tags.is_valid(TAG, flipped(MESSAGE, bit), sender=ALICE.card) for bit in range(len(MESSAGE) * 8))
    assert not tags.is_valid(TAG[:-1], MESSAGE, sender=ALICE.card)


def test_an_identity_restored_from_its_seed_alone_checks_the_tag() -> None:
    assert SenderTags(Identity(b"b" * 32)).is_valid(TAG, MESSAGE, sender=ALICE.card)


def test_a_card_with_an_unusable_key_is_refused() -> None:
    from dataclasses import replace

    with pytest.raises(RemoteProtocolError, match="can't be used"):
        SenderTags(BOB).is_valid(TAG, MESSAGE, sender=replace(ALICE.card, agreement_key=bytes(32)))
