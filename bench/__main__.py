"""Runs every benchmark, one after the other. Arguments go to the outbox's: `python -m bench --full`."""

import sys

from bench import crypto, envelope, inbox, outbox, receive, relay, render

if __name__ == "__main__":
    envelope.main()
    crypto.main()
    inbox.main()
    receive.main()
    render.main()
    outbox.main(sys.argv[1:])
    relay.main()
