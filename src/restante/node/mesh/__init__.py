"""The mesh on a node: what it knows of other nodes, what it answers, and what it does by itself (SPEC 7)."""
