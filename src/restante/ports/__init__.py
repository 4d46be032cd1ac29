"""Protocols that hosts implement. No implementation."""
