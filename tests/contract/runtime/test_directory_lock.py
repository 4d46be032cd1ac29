"""One process a directory."""

import subprocess
import sys
from pathlib import Path

import pytest

from restante.model.errors import StoreUnusable
from restante.runtime.directory_lock import hold, note_of_holder

HOLD = """
import sys
from pathlib import Path
from restante.runtime.directory_lock import hold

with hold(Path(sys.argv[1]), what="it") as lock:
    lock.write_note({"port": 5})
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_lock_held_by_another_process_is_refused_and_its_note_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreUnusable, match="this node is in use by another process"), hold(path, what="this node"):
            pass
        assert note_of_holder(path) == {"port": 5}
        holder.kill()
    assert note_of_holder(path) is None  # whatever it left in the file
    with hold(path, what="this node"):
        assert note_of_holder(path) == {}


def test_the_next_holder_sees_the_note_of_one_that_was_killed_and_none_of_one_that_ended(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    for ending, left in (("kill", {"port": 5}), ("end", {})):
        with subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            if ending == "kill":
                holder.kill()
        with hold(path, what="it") as lock:
            assert lock.left_note == left
        with hold(path, what="it") as lock:
            assert lock.left_note == {}


def test_looking_does_not_hold(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert note_of_holder(path) is None
    assert not path.exists()
    with hold(path, what="it"):
        pass
    assert note_of_holder(path) is None
    with hold(path, what="it"):
        pass


def test_a_note_that_is_none_is_read_as_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold(path, what="it"):
        for raw in (b"{", b"[1]", b"\xff"):
            path.write_bytes(raw)
            assert note_of_holder(path) == {}


def test_a_place_where_no_lock_can_be_made_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="lock cannot be opened"), hold(tmp_path / "no" / "lock", what="it"):
        pass
