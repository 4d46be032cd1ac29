"""Commands for people: identity, contacts, sending, receiving, the outbox and channels."""
