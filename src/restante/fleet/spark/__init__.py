"""Spark itself: session, Java, errors, progress, column helpers."""
