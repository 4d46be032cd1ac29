"""core/relay_inbox: what a named relay knows of an inbox."""

from restante.core.inboxes.relay_inbox import OwnInbox, relay_inbox_key
from restante.crypto.identity import Identity, is_signed_by
from restante.wire.mesh_keys import blinded_relay_inbox_key
from support.spec.clauses import clause

BOB = Identity(b"b" * 32)
HERE, THERE = Identity(b"1" * 32).node_key, Identity(b"2" * 32).node_key


@clause("7.2")
def test_every_relay_and_each_of_the_two_inboxes_has_a_key_of_its_own() -> None:
    keys = {relay_inbox_key(BOB.address, relay, secret) for relay in (HERE, THERE) for secret in (b"", b"s" * 32)}
    assert len(keys) == 4
    assert relay_inbox_key(BOB.address, HERE) == relay_inbox_key(BOB.address, HERE, b"")


@clause("6.5", "7.2")
def test_the_owner_proves_exactly_the_inbox_that_senders_write_to() -> None:
    for inbox in (OwnInbox(BOB), OwnInbox(BOB, BOB.access_secret)):
        signer = inbox.signer_at(HERE)
        sender_side = relay_inbox_key(BOB.address, HERE, inbox.access_secret)
        assert blinded_relay_inbox_key(signer.public_key, HERE) == sender_side
        assert is_signed_by(signer.public_key, signer.sign(b"request", entropy=bytes(32)), b"request")
        assert bytes(signer.public_key) != bytes(BOB.address)
