"""`restante run`: keep a client connected."""

import typer

from restante.cli.client.home import HomeOption, PassphraseOption, find_client_home, passphrase_for
from restante.cli.shared_options import inputs_of, parse_assignments


def run(ctx: typer.Context, *, home: HomeOption = None, passphrase_file: PassphraseOption = None) -> None:
    """Keep the client connected: send, receive and acknowledge until interrupted.

    'restante send' and 'restante inbox' use the running client. A systemd user unit is in contrib/.
    """
    from restante.runtime.service_process import replace_process

    inputs = inputs_of(ctx)
    inputs.load()  # an unusable configuration is refused here
    directory = find_client_home(home)
    replace_process(
        "restante.client.service",
        {
            "home": str(directory.path),
            "config": None if inputs.config is None else str(inputs.config),
            "overrides": parse_assignments(inputs.assignments),
        },
        secret=passphrase_for(directory, passphrase_file),
    )
