"""A client: an identity with its outbox, inbox and links."""
