"""The outbox in a client file."""
