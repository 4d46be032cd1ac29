"""The one-machine host: every change and the fact it states, in one SQLite transaction."""
