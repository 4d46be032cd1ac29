"""The node directory: which descriptors are held, which nodes are in the routing table (SPEC 7.1)."""
