"""Restante: reliable, private store-and-forward messaging.

    from restante import Client

    async with Client.open("alice") as client:
        sent = await client.send("bob", "bonjour")
        await sent.delivered(timeout=60)

Everything listed in `__all__` is loaded when it is first used, so that `import restante` stays light. `restante.sync`
offers the same client to blocking code. docs/reference/api.md describes all of it.
"""

import importlib
from typing import Any, Final

__version__ = "0.1.0"

EXPORTS: Final = {
    "Client": "restante.client.client",
    "SentMessage": "restante.client.application.sent_message",
    "ReceivedMessage": "restante.client.application.inbox_reader",
    "Contact": "restante.client.contacts",
    "ContactBook": "restante.client.contacts",
    "ClientDirectory": "restante.client.home",
    "Outbox": "restante.client.outbox",
    "Message": "restante.client.outbox_types",
    "Destination": "restante.client.outbox_types",
    "Drained": "restante.client.outbox_types",
    "Status": "restante.client.outbox_types",
    "SendReceipt": "restante.model.send_receipt",
    "Delivery": "restante.model.send_receipt",
    "Sent": "restante.model.send_receipt",
    "Queued": "restante.model.send_receipt",
    "Dropped": "restante.model.send_receipt",
    "Node": "restante.node.node",
    "RelayPlace": "restante.model.places",
    "Kind": "restante.model.kinds",
    "Priority": "restante.model.kinds",
    "Route": "restante.model.states",
    "State": "restante.model.states",
    "Confirmation": "restante.model.states",
    "DropReason": "restante.model.states",
    "InboxEntry": "restante.model.inbox_entry",
    "OutboxEntry": "restante.model.outbox_entry",
    "DeadLetter": "restante.model.outbox_entry",
    "Settings": "restante.policy.settings",
    "EventStream": "restante.client.event_stream",
    "Missed": "restante.client.event_stream",
    "OutboxEvent": "restante.runtime.sqlite.outbox.new_entry",
    "OutboxEventType": "restante.core.outbox_events",
    "InboxEvent": "restante.runtime.sqlite.inbox.results",
    "InboxEventType": "restante.core.inbox_events",
    "Carrier": "restante.ports.carrier",
    "StoredByNode": "restante.ports.carrier",
    "Withdrawn": "restante.ports.carrier",
    "AttemptFailed": "restante.ports.relay_connection",
    "Failure": "restante.policy.failures",
    "Code": "restante.model.error_codes",
    "RestanteError": "restante.model.errors",
    "OutboxFull": "restante.model.errors",
    "TooLarge": "restante.model.errors",
    "OutOfRange": "restante.model.errors",
    "Malformed": "restante.model.errors",
    "DuplicateMessageId": "restante.model.errors",
    "StoreUnusable": "restante.model.errors",
    "ConfigurationInvalid": "restante.model.errors",
    "NotDelivered": "restante.client.application.sent_message",
    "NotYetDelivered": "restante.client.application.sent_message",
}
"""The public names and the module that defines each. `__init__.pyi` states the same for type checkers."""

__all__ = ["__version__", *EXPORTS]  # noqa: PLE0604 - the keys are texts


def __getattr__(name: str) -> Any:
    module = EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module 'restante' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
