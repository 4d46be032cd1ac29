"""What an application uses of a client: sending, results that can be awaited, received messages and their acks."""
