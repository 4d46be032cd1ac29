"""The command `restante`: reads arguments, calls the rooms below, prints. No rule of delivery lives here."""
