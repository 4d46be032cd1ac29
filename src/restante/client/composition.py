"""Builds the parts of a client over one database file, and nothing else.

Rules are in core and policy, storage in runtime/sqlite. Each part gets only what it uses.
"""

from dataclasses import dataclass
from pathlib import Path

from restante.client.ack_sender import AckSender
from restante.client.contacts import ContactBook
from restante.client.incoming import IncomingMessages
from restante.client.introductions.access_sender import AccessSender
from restante.client.introductions.requests import Requests
from restante.client.journal_shipping import ClientShipping
from restante.client.maintenance import Maintenance
from restante.client.message_encryptor import MessageEncryptor
from restante.client.outbox import Outbox
from restante.client.outgoing import OutgoingMessages
from restante.client.places.own_places import OwnPlaces
from restante.client.security_events import SecurityEvents
from restante.client.sessions.prekey_renewal import PrekeyRenewal
from restante.client.sessions.recovery import SessionRecovery
from restante.crypto.identity import Identity
from restante.crypto.sender_tag import SenderTags
from restante.crypto.storage_seal import StorageSeal
from restante.policy.settings import Settings
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.runtime.restore_counter import RestoreCounter
from restante.runtime.sqlite.access_secrets import AccessSecrets
from restante.runtime.sqlite.file.client_file import ClientFile
from restante.runtime.sqlite.inbox.store import SqliteInbox
from restante.runtime.sqlite.own_access import OwnAccess
from restante.runtime.sqlite.peer_prekeys import PeerPrekeys
from restante.runtime.sqlite.session_store import SessionStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientParts:
    """Everything that shares a client's file."""

    file: ClientFile
    outbox: Outbox
    inbox: SqliteInbox
    sessions: SessionStore
    access: AccessSecrets
    own_access: OwnAccess
    access_sender: AccessSender
    prekeys: PeerPrekeys
    security: SecurityEvents
    encryptor: MessageEncryptor
    outgoing: OutgoingMessages
    recovery: SessionRecovery
    renewal: PrekeyRenewal
    incoming: IncomingMessages
    requests: Requests
    maintenance: Maintenance
    shipping: ClientShipping


def build_parts(
    path: Path,
    identity: Identity,
    *,
    contacts: ContactBook,
    places: OwnPlaces,
    settings: Settings,
    clock: Clock,
    entropy: Entropy,
    ship_to: str | None,
) -> ClientParts:
    """Open the file, create it if it does not exist, and build the parts over it."""
    file = ClientFile.open(path, entropy=entropy)
    seal = StorageSeal(identity.storage_key)
    sessions = SessionStore(file.database, owner=identity.address, seal=seal, entropy=entropy)
    access = AccessSecrets(file.database, seal=seal, entropy=entropy)
    own_access = OwnAccess(file.database, identity, seal=seal, entropy=entropy)
    security = SecurityEvents(file.database, file.journal, tag_secret=identity.tag_secret)
    prekeys = PeerPrekeys(file.database)
    encryptor = MessageEncryptor(
        identity,
        contacts=contacts,
        sessions=sessions,
        prekeys=prekeys,
        storage=seal,
        entropy=entropy,
        security=security,
    )
    outbox = Outbox(file, settings=settings, clock=clock, entropy=entropy, encryptor=encryptor)
    inbox = SqliteInbox(
        file.database, file.journal, settings, seal=seal, entropy=entropy, tag_secret=identity.tag_secret
    )
    outgoing = OutgoingMessages(sessions=sessions, outbox=outbox, encryptor=encryptor, entropy=entropy)
    recovery = SessionRecovery(
        contacts=contacts, sessions=sessions, encryptor=encryptor, outgoing=outgoing, security=security
    )
    ack_sender = AckSender(identity, contacts=contacts, outgoing=outgoing, inbox=inbox, batching=settings.acks)
    tags = SenderTags(identity)
    requests = Requests(file, contacts=contacts, tags=tags, security=security)
    renewal = PrekeyRenewal(
        identity, places, contacts=contacts, sessions=sessions, prekeys=prekeys, outgoing=outgoing, security=security
    )
    incoming = IncomingMessages(
        identity,
        tags=tags,
        contacts=contacts,
        sessions=sessions,
        outgoing=outgoing,
        recovery=recovery,
        renewal=renewal,
        outbox=outbox.store,
        access=access,
        own_access=own_access,
        requests=requests,
        security=security,
    )
    access_sender = AccessSender(
        contacts=contacts, outgoing=outgoing, access=access, own=own_access, journal=file.journal
    )
    counter = RestoreCounter(file, entropy=entropy)
    maintenance = Maintenance(
        counter=counter,
        sessions=sessions,
        encryptor=encryptor,
        recovery=recovery,
        renewal=renewal,
        access=access_sender,
        incoming=incoming,
        ack_sender=ack_sender,
        security=security,
        requests=requests,
        inbox=inbox,
        settings=settings,
        entropy=entropy,
    )
    with file.database.transaction():
        access_sender.refresh()
        if counter.was_restored:
            recovery.lose_all_state(now_ms=clock.now_ms())
            access.tell_all_again()  # they may have been told a newer secret, which this copy does not have
    return ClientParts(
        file=file,
        outbox=outbox,
        inbox=inbox,
        sessions=sessions,
        access=access,
        own_access=own_access,
        access_sender=access_sender,
        prekeys=prekeys,
        security=security,
        encryptor=encryptor,
        outgoing=outgoing,
        recovery=recovery,
        renewal=renewal,
        incoming=incoming,
        requests=requests,
        maintenance=maintenance,
        shipping=ClientShipping(ship_to, file, settings=settings, clock=clock, entropy=entropy),
    )
