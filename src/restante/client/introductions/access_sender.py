"""Gives contacts the access secret of our contacts inbox, inside the session, and a new one when one of them is removed
(SPEC 7.2, 8.8).

A contact gets it once we have read a message of it: then both sides have added each other. Until then it writes to the
public inbox. Who has the secret and is no contact any more makes us use another: the others are told, and the old inbox
is read for 30 more days. What is on disk decides, so that a removal takes effect whenever a process died.
"""

from typing import Final

from restante.client.contacts import ContactBook
from restante.client.outgoing import OutgoingMessages
from restante.model.kinds import Kind
from restante.runtime.sqlite.access_secrets import AccessSecrets
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.own_access import OwnAccess
from restante.wire.control_messages import AccessSecret, encode_access_secret

_ALL_READ: Final = "all_inboxes_read_at_ms"
_BYTES: Final = 8


class AccessSender:
    """Methods are called inside a transaction."""

    def __init__(
        self,
        *,
        contacts: ContactBook,
        outgoing: OutgoingMessages,
        access: AccessSecrets,
        own: OwnAccess,
        journal: Journal,
    ) -> None:
        self._contacts = contacts
        self._outgoing = outgoing
        self._access = access
        self._own = own
        self._journal = journal
        self.all_read_at_ms = 0
        """When all inboxes were read last, at all places, as of the last `refresh`."""

    def refresh(self) -> None:
        """Read again what another process may have changed."""
        self._own.refresh()
        self.all_read_at_ms = int.from_bytes(self._journal.get_meta(_ALL_READ) or b"", "big")

    def rotate_if_needed(self, *, now_ms: int) -> None:
        """Use a new secret if an address has ours that is no contact any more, whichever process removed it.

        A file that can't be used may be that of any contact: while there is one, only what `contacts` itself removed
        counts, so that a file which is unreadable for a moment is no removal.
        """
        self._contacts.refresh()
        self.refresh()
        if self._access.forget_others(self._contacts.may_have):
            self._own.rotate(now_ms=now_ms)
            self._access.tell_all_again()

    def tell_contacts(self, *, now_ms: int) -> None:
        """Queue the secret for each contact that lacks it. Raises `OutboxFull`; the next run goes on from there."""
        for peer in self._access.to_tell(now_ms=now_ms):
            contact = self._contacts.get(peer)
            if contact is not None:
                stated = AccessSecret(secret=self._own.current.secret, stated_at_ms=now_ms)
                self._outgoing.write(contact, encode_access_secret(stated), kind=Kind.CONTROL, now_ms=now_ms)
                self._access.mark_told(peer, now_ms=now_ms)

    def forget_former(self, *, now_ms: int) -> None:
        """Forget secrets whose inboxes are no longer read."""
        self.refresh()
        self._own.forget_read(all_read_at_ms=self.all_read_at_ms, now_ms=now_ms)

    def mark_all_read(self, *, at_ms: int) -> None:
        self._journal.set_meta(_ALL_READ, at_ms.to_bytes(_BYTES, "big"))
        self.all_read_at_ms = at_ms
