"""The hop of a node: circuits of clients and other hops, and the streams of those that end here (SPEC 11)."""
