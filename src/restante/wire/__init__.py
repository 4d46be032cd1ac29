"""Bytes: how everything that is sent, stored or shown is laid out. No keys, no clock, no decisions."""
