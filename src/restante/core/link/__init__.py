"""The link protocol as pure machines: one for the node's end of a connection, one for the client's end."""
