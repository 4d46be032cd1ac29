"""Adapters: how one platform is called."""
