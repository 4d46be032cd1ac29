"""The mesh's part of a node file: mail by inbox key, tombstones, prekey records and peers."""
