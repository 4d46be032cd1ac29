"""The command `restante`, also as `python -m restante`."""

INTERRUPTED = 130  # 128 + SIGINT


def main() -> None:
    """Import the command line, which takes half a second, and run it. Ctrl-C leaves no traceback in either."""
    try:
        from restante.cli.main import main as run  # noqa: PLC0415 - see above
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    run()


if __name__ == "__main__":
    main()
