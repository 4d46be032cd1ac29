"""The inbox in a client file: dedup index, reorder buffer, messages, pending acks."""
