"""Create and open files of a lake, on this machine's disk or on a store that pyarrow knows (s3, gs, abfs, hdfs)."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyarrow import fs

from restante.fleet.lake.layout import is_here, local_path, store_address
from restante.model.errors import StoreUnusable


@contextmanager
def create_file(root: str, name: str, *, sync: Callable[[int], None] = os.fsync) -> Iterator[Any]:
    """Yield a new file to write to. A local one is on disk, with its name, when the block ends and `sync` is done."""
    if not is_here(root):
        system, address = _arrow_path(root, name)
        with system.open_output_stream(address) as stream:
            yield stream
        return
    path = local_path(root) / name
    made = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        yield file
        file.flush()
        sync(file.fileno())
    for folder in (path.parent, *(new.parent for new in made)):
        _sync_directory(folder)


def open_file(root: str, name: str) -> Any:
    """What pyarrow's readers take for a file of the lake."""
    if is_here(root):
        return str(local_path(root) / name)
    system, path = _arrow_path(root, name)
    return system.open_input_file(path)


def list_files(directory: str) -> dict[str, tuple[int, int]]:
    """Every entry of a directory, but pipes and devices, with its size and the time of its last change in ns."""
    found = (entry for entry in _listed(directory)[1] if entry.type is not fs.FileType.Unknown)
    return {entry.base_name: (entry.size or 0, entry.mtime_ns or 0) for entry in found}


def list_tree(directory: str) -> dict[str, int]:
    """Every file below a directory, by its path from there, with its size."""
    path, found = _listed(directory, recursive=True)
    start = len(path.rstrip("/")) + 1
    return {entry.path[start:]: entry.size for entry in found if entry.type is fs.FileType.File}


def _listed(directory: str, *, recursive: bool = False) -> tuple[str, list[Any]]:
    with _explained(directory, "listed"):
        system, path = _arrow_directory(directory)
        return path, system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=recursive))


def read_small_file(root: str, name: str) -> bytes | None:
    """All of a file; None where there is none."""
    system, path = _arrow_directory(root)
    try:
        with system.open_input_stream(f"{path.rstrip('/')}/{name}") as file:
            return bytes(file.read())
    except FileNotFoundError:
        return None


def put_small_file(root: str, name: str, raw: bytes) -> None:
    """Write a file whole, in place of one of that name."""
    if is_here(root):
        path = local_path(root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{name}.{os.getpid()}.partial")
        with draft.open("wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        _sync_directory(path.parent)
        return
    system, path_there = _arrow_path(root, name)
    with system.open_output_stream(path_there) as stream:
        stream.write(raw)


def delete_file(root: str, name: str) -> None:
    system, path = _arrow_directory(root)
    with suppress(FileNotFoundError), _explained(f"{path.rstrip('/')}/{name}"):
        system.delete_file(f"{path.rstrip('/')}/{name}")


def delete_tree(directory: str) -> None:
    system, path = _arrow_directory(directory)
    with suppress(FileNotFoundError), _explained(path):
        system.delete_dir(path)


@contextmanager
def _explained(path: str, done: str = "deleted") -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreUnusable(f"{path} cannot be {done}: {error.strerror or first_line(error)}") from error


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _arrow_directory(directory: str) -> tuple[Any, str]:
    if is_here(directory):
        return fs.LocalFileSystem(), str(local_path(directory))
    system, path = fs.FileSystem.from_uri(store_address(directory))
    return system, path


def _arrow_path(root: str, name: str) -> tuple[Any, str]:
    system, path = fs.FileSystem.from_uri(store_address(root))
    return system, f"{path.rstrip('/')}/{name}"


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
