"""Gives contacts the access secret of our contacts inbox, inside the session (SPEC 7.2, 8.8).

A contact gets it once we have read a message of it: then both sides have added each other. Until then it writes to the
public inbox.
"""

from restante.client.contacts import ContactBook
from restante.client.outgoing import OutgoingMessages
from restante.crypto.identity import Identity
from restante.model.kinds import Kind
from restante.runtime.sqlite.access_secrets import AccessSecrets
from restante.wire.control_messages import AccessSecret, encode_access_secret


class AccessSender:
    def __init__(
        self, identity: Identity, *, contacts: ContactBook, outgoing: OutgoingMessages, access: AccessSecrets
    ) -> None:
        self._body = encode_access_secret(AccessSecret(secret=identity.access_secret))
        self._contacts = contacts
        self._outgoing = outgoing
        self._access = access

    def tell_new_contacts(self, *, now_ms: int) -> None:
        """Queue the secret for each contact that lacks it. Raises `OutboxFull`; the next run goes on from there."""
        self._access.refresh()
        for peer in self._access.untold():
            contact = self._contacts.get(peer)
            if contact is not None:
                self._outgoing.write(contact, self._body, kind=Kind.CONTROL, now_ms=now_ms)
                self._access.mark_told(peer)
