"""What the hosts must provide: Protocols only, no implementation."""
