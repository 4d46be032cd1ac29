"""Delivery to chat platforms: Markdown rendered for each, cut to size (SPEC 12)."""
