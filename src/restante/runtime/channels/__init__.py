"""Delivery to chat platforms: rendering, cutting, adapters (SPEC 12)."""
