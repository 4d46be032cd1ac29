"""Dead letters as JSON Lines (SPEC 5.4): one object for each line, with payloads only on request."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from restante.cli.client.database_file import ClientFile
from restante.model.errors import ConfigurationInvalid
from restante.views.messages import base64_of, dead_letter_data

DATABASE_FILES: Final = ("", "-wal", "-shm")


def dead_letter_lines(client: ClientFile, *, payload: bool) -> Iterator[str]:
    """Yield one line for each dead letter. Payloads are read one by one, because all may not fit into memory."""
    for letter in client.reading.letters(category=None, limit=-1):
        data = dead_letter_data(letter)
        if payload:
            data["payload_base64"] = base64_of(client.outbox.dead_letters.payload(letter))
        yield json.dumps(data) + "\n"


def refuse_to_overwrite_database(database: Path, output: Path) -> None:
    ours = {database.resolve().with_name(database.resolve().name + suffix) for suffix in DATABASE_FILES}
    if output.resolve() in ours:
        raise ConfigurationInvalid(f"--output {output} is the client's own database; choose another file")
