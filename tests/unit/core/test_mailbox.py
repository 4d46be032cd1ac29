"""core/mailbox: what a relay keeps, before it looks whether there is room."""

import hashlib
from dataclasses import replace

import pytest

from restante.core.mailbox import Keep, check_put, check_puts, is_intact
from restante.core.mesh_proofs.receipts import leaf_of
from restante.model.errors import Malformed, TooLarge
from restante.model.ids import InboxKey, PayloadHash
from restante.policy.quota import MailboxQuota, Refusal
from restante.wire.envelope import Envelope, encode_envelope
from support.spec.clauses import clause

HOUR_MS = 3_600_000
NOW_MS = 500_000 * HOUR_MS
QUOTA = MailboxQuota()
ENVELOPE = Envelope(inbox_key=InboxKey(b"\x22" * 32), expires_at_ms=NOW_MS + 48 * HOUR_MS, sealed=b"s" * 1_000)
LARGEST = replace(ENVELOPE, sealed=bytes(262_144))


def judged(envelope: Envelope = ENVELOPE, *, quota: MailboxQuota = QUOTA) -> Keep | Refusal:
    return check_put(encode_envelope(envelope), quota=quota, now_ms=NOW_MS)


def refusal(verdict: Keep | Refusal) -> tuple[bool, str] | None:
    return (verdict.permanent, verdict.code.value) if isinstance(verdict, Refusal) else None


def test_what_is_kept_is_kept_for_its_inbox_under_its_hash_until_its_expiry() -> None:
    assert judged() == Keep(
        inbox_key=InboxKey(b"\x22" * 32),
        payload_hash=PayloadHash(hashlib.sha256(b"s" * 1_000).digest()),
        expires_at_ms=NOW_MS + 48 * HOUR_MS,
        envelope=encode_envelope(ENVELOPE),
        leaf=leaf_of(ENVELOPE),
    )


@clause("6.6", "6.7")
def test_a_blob_over_the_size_limit_is_refused_for_good() -> None:
    assert refusal(judged(LARGEST)) is None
    assert refusal(judged(LARGEST, quota=MailboxQuota(max_blob_bytes=262_143))) == (True, "E006")


@clause("6.6", "6.10")
@pytest.mark.parametrize(("life_h", "expected"), [(0, (False, "E102")), (1, None), (720, None), (722, None)])
def test_less_than_an_hour_left_is_refused_for_now(life_h: int, expected: tuple[bool, str] | None) -> None:
    assert refusal(judged(replace(ENVELOPE, expires_at_ms=NOW_MS + life_h * HOUR_MS))) == expected


@clause("6.6")
def test_a_longer_life_than_thirty_days_is_cut() -> None:
    verdict = judged(replace(ENVELOPE, expires_at_ms=NOW_MS + 10_000 * HOUR_MS))
    assert isinstance(verdict, Keep)
    assert verdict.expires_at_ms == NOW_MS + 720 * HOUR_MS


@clause("6.6", "10.2")
def test_a_receipt_covers_the_expiry_that_the_sender_wrote_though_it_is_cut() -> None:
    longer = replace(ENVELOPE, expires_at_ms=NOW_MS + 10_000 * HOUR_MS)
    alone = judged(longer)
    [together], _ = check_puts([encode_envelope(longer)], quota=QUOTA, now_ms=NOW_MS)
    assert isinstance(alone, Keep)
    assert alone.leaf == together.leaf == leaf_of(longer)


@clause("6.3")
def test_a_changed_bit_anywhere_but_in_the_expiry_is_damage() -> None:
    raw = encode_envelope(ENVELOPE)
    payload_hash = PayloadHash(hashlib.sha256(ENVELOPE.sealed).digest())
    assert is_intact(raw, inbox_key=ENVELOPE.inbox_key, payload_hash=payload_hash)
    assert not is_intact(b"", inbox_key=ENVELOPE.inbox_key, payload_hash=payload_hash)
    assert not is_intact(raw[:-1] + b"t", inbox_key=ENVELOPE.inbox_key, payload_hash=payload_hash)
    assert not is_intact(raw, inbox_key=InboxKey(bytes(32)), payload_hash=payload_hash)


def test_the_same_envelope_put_again_is_kept_again() -> None:
    assert judged() == judged()


def test_bytes_that_are_no_envelope_raise_as_the_codec_does() -> None:
    with pytest.raises(Malformed):
        check_put(b"no envelope", quota=QUOTA, now_ms=NOW_MS)
    with pytest.raises(TooLarge):
        check_put(bytes(262_209), quota=QUOTA, now_ms=NOW_MS)


def test_many_are_judged_as_each_alone_would_be() -> None:
    lives_h = (48, 0, 1, 720, 721, 722)
    raws = [encode_envelope(replace(ENVELOPE, expires_at_ms=NOW_MS + life_h * HOUR_MS)) for life_h in lives_h]
    raws[3:3] = [b"no envelope", bytes(262_209), encode_envelope(LARGEST)]
    quota = MailboxQuota(max_blob_bytes=262_143)
    keeps, refusals = check_puts(raws, quota=quota, now_ms=NOW_MS)
    assert {place: refusal(refused) for place, refused in refusals.items()} == {
        1: (False, "E102"),
        3: (True, "E101"),
        4: (True, "E006"),
        5: (True, "E006"),
    }
    assert keeps == [check_put(raws[place], quota=quota, now_ms=NOW_MS) for place in (0, 2, 6, 7, 8)]
    assert {type(keep) for keep in keeps} == {Keep}
