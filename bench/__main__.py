"""Runs every benchmark, one after the other. Arguments go to the outbox's: `python -m bench --full`."""

import sys

from bench import envelope, outbox, relay

if __name__ == "__main__":
    envelope.main()
    outbox.main(sys.argv[1:])
    relay.main()
