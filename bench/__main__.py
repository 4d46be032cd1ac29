"""Runs every benchmark, one after the other. Arguments go to the outbox's: `python -m bench --full`."""

import sys

from bench import envelope, inbox, outbox, render

if __name__ == "__main__":
    envelope.main()
    inbox.main()
    render.main()
    outbox.main(sys.argv[1:])
