"""`python -m restante` is the command `restante`."""

from restante.cli.main import main

if __name__ == "__main__":
    main()
