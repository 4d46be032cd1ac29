"""The keys of an identity's inboxes at relays and in the mesh (SPEC 7.2)."""
