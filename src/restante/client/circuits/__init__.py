"""The client's circuits: guards, a pool, and connections to nodes of the mesh through three hops (SPEC 11)."""
