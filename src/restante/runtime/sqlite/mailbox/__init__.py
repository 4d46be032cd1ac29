"""The mailboxes in a node file."""
