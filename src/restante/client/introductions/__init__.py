"""How people come to write to each other: access secrets of contacts, requests of strangers (SPEC 8.8)."""
