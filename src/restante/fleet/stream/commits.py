"""The commits of a stream: each a small file that names everything that is true, and takes the place of the one before.

A step is done when its commit has its name, and not before: whoever is killed in between has done nothing. A reader
takes the latest commit and reads the files it names; they stay for an hour after they are replaced.
"""

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from restante.fleet.stream.bucket_step import Counts
from restante.fleet.stream.files import Bucket, FileRef, merged_by_level
from restante.model.errors import StoreUnusable

FORMAT: Final = 2
READABLE: Final = (1, FORMAT)  # the first knew no forgotten sessions, and forgot none
COMMITS: Final = "commits"
DATA: Final = "data"
LOCK: Final = "lock"
COMMITS_KEPT: Final = 3
KEPT_FOR_READERS_S: Final = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OddFile:
    """A file that could not be read, or not to its end. It is tried again when its size or its time changes."""

    name: str
    reason: str
    size_bytes: int
    changed_ns: int
    rows_taken: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Everything a stream knows. `taken` are lists of the segments that were read; `unwritten_days` have changed since
    the tables were last written for other readers."""

    number: int = 0
    buckets: tuple[Bucket, ...]
    taken: tuple[FileRef, ...] = ()
    odd_files: tuple[OddFile, ...] = ()
    counts: Counts = field(default_factory=Counts)
    unwritten_days: frozenset[int] = frozenset()
    written: int = 0
    """The number of the commit that the tables were last written from."""

    @property
    def has_unwritten(self) -> bool:
        return self.written != self.number

    def names(self) -> set[str]:
        """The files that this commit is made of."""
        return {name for bucket in self.buckets for name in bucket.names()} | {ref.name for ref in self.taken}

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "number": self.number,
            "buckets": [bucket.as_json() for bucket in self.buckets],
            "taken": [asdict(ref) for ref in self.taken],
            "odd_files": [asdict(one) for one in self.odd_files],
            "counts": asdict(self.counts),
            "unwritten_days": sorted(self.unwritten_days),
            "written": self.written,
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> "Commit":
        if raw["format"] not in READABLE:
            raise StoreUnusable(f"the stream's files have format {raw['format']}, and this reads format {FORMAT}")
        return cls(
            number=raw["number"],
            buckets=tuple(map(Bucket.from_json, raw["buckets"])),
            taken=tuple(FileRef(**ref) for ref in raw["taken"]),
            odd_files=tuple(OddFile(**one) for one in raw["odd_files"]),
            counts=Counts(**raw["counts"]),
            unwritten_days=frozenset(raw["unwritten_days"]),
            written=raw["written"],
        )


def latest_commit(root: Path) -> Commit | None:
    """What is true of the stream under `root`; None when there is none."""
    found = _commit_files(root)
    if not found:
        return None
    try:
        return Commit.from_json(json.loads(found[-1].read_bytes()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreUnusable(f"{found[-1]} cannot be read: {error}") from error


def write_commit(root: Path, commit: Commit) -> None:
    """From here on `commit` is what is true."""
    directory = root / COMMITS
    directory.mkdir(parents=True, exist_ok=True)
    _write_whole(directory / f"{commit.number:012d}.json", json.dumps(commit.as_json()).encode())


def taken_segments(root: Path, refs: Iterable[FileRef]) -> dict[str, int]:
    """The segments that were read, and how many rows each says it has; the latest word on each."""
    taken: dict[str, int] = {}
    for ref in refs:
        taken.update(json.loads((root / ref.name).read_bytes()))
    return taken


def with_taken(root: Path, folder: str, refs: tuple[FileRef, ...], segments: Mapping[str, int]) -> tuple[FileRef, ...]:
    """The lists of segments with these added."""

    def write(level: int, names: Mapping[str, int]) -> tuple[FileRef, ...]:
        name = f"{folder}/taken-{level}.json"
        (root / folder).mkdir(parents=True, exist_ok=True)
        _write_whole(root / name, json.dumps(names).encode())
        return (FileRef(name=name, rows=len(names), level=level),)

    def merge(old: Sequence[FileRef], level: int) -> tuple[FileRef, ...]:
        return write(level, taken_segments(root, old))

    return merged_by_level((*refs, *write(0, segments)), merge) if segments else refs


def remove_rubbish(root: Path, commit: Commit, *, now_s: float | None = None) -> None:
    """Files that the latest commit does not name: state at once, tables when no reader can be at them any more."""
    before_s = (time.time() if now_s is None else now_s) - KEPT_FOR_READERS_S
    needed = commit.names()
    for path in _commit_files(root)[:-COMMITS_KEPT]:
        path.unlink(missing_ok=True)
    for folder in sorted((root / DATA).glob("*")):
        number = folder.name.partition("-")[0]
        if not number.isdigit() or int(number) > commit.number:
            continue  # of a step that is under way
        for path in folder.iterdir():
            is_state = path.suffix == ".arrow"
            if f"{DATA}/{folder.name}/{path.name}" not in needed and (is_state or path.stat().st_mtime < before_s):
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()


def remove_old_state(root: Path, before: Commit, commit: Commit) -> None:
    """State that the commit before needed and this one does not; nobody but the stream ever reads it."""
    for name in before.names() - commit.names():
        if name.endswith(".arrow"):
            (root / name).unlink(missing_ok=True)


@contextlib.contextmanager
def only_one(root: Path) -> Iterator[None]:
    """No other process works on the stream while the block runs."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        handle = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreUnusable(f"the stream's files cannot be written: {error}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreUnusable(
                f"another 'restante fleet run' works on {root.parent}; there can be one at a time"
            ) from error
        yield
    finally:
        os.close(handle)


def forget_everything(root: Path) -> None:
    """The stream as it was before its first step; to be called with `only_one`."""
    for name in (COMMITS, DATA):
        shutil.rmtree(root / name, ignore_errors=True)


def _commit_files(root: Path) -> list[Path]:
    return sorted(path for path in (root / COMMITS).glob("*.json") if not path.name.startswith("."))


def _write_whole(final: Path, raw: bytes) -> None:
    draft = final.with_name(f".{final.name}.{os.getpid()}.partial")
    with draft.open("wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(final)
    sync_directories([final.parent])


def sync_directories(paths: Iterable[Path]) -> None:
    """The names in these directories are on disk as well."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
