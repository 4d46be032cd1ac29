"""CPU time of the stream on an object store against that on a disk: `python -m bench.fleet_store [ROWS]`.

The store is moto's server, in a process of its own that is not counted. Each run is a process with a Spark of its own;
what is counted is the CPU time of all processes of its session, read from /proc four times a second. Each run starts
with an empty lake and makes events, quarantine and arrivals; the derived tables are not made.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pyarrow import fs

from bench.results import Table, bar, write_results
from restante.fleet.jobs.generate import run_generate
from restante.fleet.jobs.stream import StreamOptions, run_stream
from restante.fleet.kernels.synthetic_fleet import Scenario
from restante.fleet.lake.layout import Lake
from restante.policy.settings import Settings

ROWS = 3_000_000
ROUNDS = 2
TIMES = 1.5
MASTER = "local[2]"
SAMPLE_S = 0.25
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
BUCKET = "bench"


def stream(root: str, checkpoint: str) -> None:
    """One run, in this process."""
    options = StreamOptions(once=True, is_published=False, checkpoint=checkpoint)
    done = run_stream(Lake(root), Settings(), options, master=MASTER)
    print(json.dumps({"rows": done.rows, "batches": done.batches}))


def measured(root: str, environ: dict[str, str]) -> tuple[float, float, int]:
    """CPU seconds, seconds, and rows of one run."""
    with tempfile.TemporaryDirectory() as checkpoint:
        began = time.monotonic()
        words = [sys.executable, "-m", "bench.fleet_store", "stream", root, checkpoint]
        process = subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, text=True, start_new_session=True)
        ticks: dict[tuple[int, str], int] = {}
        while process.poll() is None:
            ticks |= ticks_of_session(process.pid)
            time.sleep(SAMPLE_S)
        assert process.stdout is not None
        said = json.loads(process.stdout.read().splitlines()[-1])
        return sum(ticks.values()) / TICKS_PER_S, time.monotonic() - began, said["rows"]


def ticks_of_session(session: int) -> dict[tuple[int, str], int]:
    """Clock ticks of each process, by its id and the time of its start."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = path.read_text("utf-8").rpartition(")")[2].split()
            if int(words[3]) == session:
                found[int(path.parent.name), words[19]] = int(words[11]) + int(words[12])
    return found


@contextlib.contextmanager
def store() -> Iterator[dict[str, str]]:
    """What a process needs in its environment to reach an empty store."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), timeout=1):
                break
            time.sleep(SAMPLE_S)
        names = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
        yield {**names, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true"}
    finally:
        server.kill()
        server.wait()


def main(rows: int = ROWS) -> None:
    table = Table("The stream on an object store and on a disk, local[2]", ["store", "rows", "CPU s", "s", "bar"])
    used: dict[str, list[float]] = {"file": [], "s3": []}
    with tempfile.TemporaryDirectory() as made, store() as environ:
        os.environ.update(environ)
        segments = Path(made, "made", "segments")
        scenario = Scenario(messages=rows, sessions=rows // 100, clients=max(100, rows // 2_000), days=1, lost=0.0)
        run_generate(Lake(str(segments.parent)), scenario, only_arrivals=True, master=MASTER)
        uploads = fs.S3FileSystem(endpoint_override=environ["AWS_ENDPOINT_URL"], allow_bucket_creation=True)
        uploads.create_dir(BUCKET)
        for number in range(ROUNDS):
            here = Path(made, f"here-{number}")
            here.mkdir()
            (here / "segments").symlink_to(segments)
            fs.copy_files(str(segments), f"{BUCKET}/{number}/segments", fs.LocalFileSystem(), uploads)
            for name, root in (("file", str(here)), ("s3", f"s3://{BUCKET}/{number}")):
                cpu_s, took_s, read = measured(root, dict(os.environ))
                used[name].append(cpu_s)
                table.add([name, f"{read:,}", f"{cpu_s:.1f}", f"{took_s:.1f}", ""])
                print(*table.rows[-1], flush=True)
    times = min(used["s3"]) / min(used["file"])
    table.add(
        ["s3 against file, least of each", "", "", "", bar(times <= TIMES, f"{times:.2f} x, at most {TIMES:g} x")]
    )
    print(table.as_text())
    write_results("fleet_store", [table])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stream", root, checkpoint]:
            stream(root, checkpoint)
        case [rows]:
            main(int(rows))
        case _:
            main()
