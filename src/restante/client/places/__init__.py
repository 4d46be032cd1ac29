"""Mail goes to the places of its recipient: named relays, the mesh (SPEC 3.14)."""
