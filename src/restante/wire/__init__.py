"""Codecs: the layout of everything that is sent, stored or shown. No keys, no clock, no decisions."""
