"""The command `restante`: reads arguments, calls the packages below and prints. It holds no rule of delivery."""
