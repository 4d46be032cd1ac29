"""An object store that speaks S3, on loopback: moto's server in a process of its own."""

import contextlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyarrow import fs

from support.relay.node_processes import free_port
from support.system.wait_until import until

BUCKET = "fleet"


@dataclass(frozen=True, slots=True)
class MotoS3:
    """`environ` is what a process needs to reach it: pyarrow and deltalake read the same variables."""

    port: int

    @property
    def environ(self) -> Mapping[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def address(self, name: str) -> str:
        return f"s3://{BUCKET}/{name}"

    def upload(self, directory: Path, name: str) -> None:
        """Copy the files of a directory of this machine below `name`."""
        fs.copy_files(str(directory), f"{BUCKET}/{name}", fs.LocalFileSystem(), self.files())

    def files(self) -> fs.S3FileSystem:
        where = f"http://127.0.0.1:{self.port}"
        return fs.S3FileSystem(
            endpoint_override=where,
            access_key="test",
            secret_key="test",  # noqa: S106 - of a store that this test starts
            region="us-east-1",
            allow_bucket_creation=True,
        )


@contextlib.contextmanager
def moto_s3() -> Iterator[MotoS3]:
    port = free_port()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            until(lambda: process.poll() is not None or _answers(port))
            assert process.poll() is None, "moto's server did not start"
            store = MotoS3(port)
            store.files().create_dir(BUCKET)
            yield store
        finally:
            process.kill()
            process.wait()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
