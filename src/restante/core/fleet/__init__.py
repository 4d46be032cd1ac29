"""What the fleet signs and checks: manifests of segments, enrolled keys, actions."""
