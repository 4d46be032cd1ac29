"""`restante demo`: the processes it starts and the program that directs them."""
