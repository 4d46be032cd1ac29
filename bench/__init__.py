"""Measurements as ratios against a named peer or limit, in one run (`make bench`)."""
