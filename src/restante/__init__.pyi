from typing import Final

from restante.client.application.inbox_reader import ReceivedMessage as ReceivedMessage
from restante.client.application.sent_message import NotDelivered as NotDelivered
from restante.client.application.sent_message import NotYetDelivered as NotYetDelivered
from restante.client.application.sent_message import SentMessage as SentMessage
from restante.client.client import Client as Client
from restante.client.contacts import Contact as Contact
from restante.client.contacts import ContactBook as ContactBook
from restante.client.event_stream import EventStream as EventStream
from restante.client.event_stream import Missed as Missed
from restante.client.home import ClientDirectory as ClientDirectory
from restante.client.outbox import Outbox as Outbox
from restante.client.outbox_types import Destination as Destination
from restante.client.outbox_types import Drained as Drained
from restante.client.outbox_types import Message as Message
from restante.client.outbox_types import Status as Status
from restante.core.inbox_events import InboxEventType as InboxEventType
from restante.core.outbox_events import OutboxEventType as OutboxEventType
from restante.model.error_codes import Code as Code
from restante.model.errors import ConfigurationInvalid as ConfigurationInvalid
from restante.model.errors import DuplicateMessageId as DuplicateMessageId
from restante.model.errors import Malformed as Malformed
from restante.model.errors import OutboxFull as OutboxFull
from restante.model.errors import OutOfRange as OutOfRange
from restante.model.errors import RestanteError as RestanteError
from restante.model.errors import StoreUnusable as StoreUnusable
from restante.model.errors import TooLarge as TooLarge
from restante.model.inbox_entry import InboxEntry as InboxEntry
from restante.model.kinds import Kind as Kind
from restante.model.kinds import Priority as Priority
from restante.model.outbox_entry import DeadLetter as DeadLetter
from restante.model.outbox_entry import OutboxEntry as OutboxEntry
from restante.model.places import RelayPlace as RelayPlace
from restante.model.send_receipt import Delivery as Delivery
from restante.model.send_receipt import Dropped as Dropped
from restante.model.send_receipt import Queued as Queued
from restante.model.send_receipt import SendReceipt as SendReceipt
from restante.model.send_receipt import Sent as Sent
from restante.model.states import Confirmation as Confirmation
from restante.model.states import DropReason as DropReason
from restante.model.states import Route as Route
from restante.model.states import State as State
from restante.node.node import Node as Node
from restante.policy.failures import Failure as Failure
from restante.policy.settings import Settings as Settings
from restante.ports.carrier import Carrier as Carrier
from restante.ports.carrier import StoredByNode as StoredByNode
from restante.ports.carrier import Withdrawn as Withdrawn
from restante.ports.relay_connection import AttemptFailed as AttemptFailed
from restante.runtime.sqlite.inbox.results import InboxEvent as InboxEvent
from restante.runtime.sqlite.outbox.new_entry import OutboxEvent as OutboxEvent

__version__: str
EXPORTS: Final[dict[str, str]]
