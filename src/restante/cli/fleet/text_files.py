"""Write a result as a text file, whole or not at all."""

import os
from pathlib import Path

from restante.model.errors import StoreUnusable


def write_text_file(text: str, path: Path) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        temporary.unlink(missing_ok=True)  # others may write to this directory, too: a link of theirs is not followed
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreUnusable(f"{path} cannot be written: {error.strerror}") from error
