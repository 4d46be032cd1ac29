"""As much of S3 as an upload needs, on loopback: the client in front of it is the real one."""

import contextlib
import http.server
import io
import threading
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

BEGUN = b"<InitiateMultipartUploadResult><UploadId>one</UploadId></InitiateMultipartUploadResult>"
ENDED = b"<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"


class SmallS3(http.server.ThreadingHTTPServer):
    """Objects show once their upload is complete. While `refuses` is set, every request is answered with 403."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.objects: dict[str, bytes] = {}
        self.parts: dict[str, bytes] = {}
        self.refuses = False

    def address(self, scheme: str, path: str) -> str:
        where = f"endpoint_override=127.0.0.1:{self.server_port}&scheme=http&region=here"
        return f"{scheme}://key:secret@{path}?{where}"


class _Request(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        store = self.server
        assert isinstance(store, SmallS3)
        body = self._body()
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        said = b""
        if not store.refuses and "uploads" in query:
            said = BEGUN
        elif not store.refuses and self.command == "PUT" and "partNumber" in query:
            store.parts[parts.path] = store.parts.get(parts.path, b"") + body
        elif not store.refuses and self.command == "POST":
            store.objects[parts.path] = store.parts.pop(parts.path)
            said = ENDED
        elif not store.refuses and self.command == "PUT":
            store.objects[parts.path] = body
        self.send_response(403 if store.refuses else 200)
        self.send_header("ETag", "x")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_PUT = do_POST = do_HEAD = do_GET = answer  # noqa: N815 - http.server looks for these names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Nothing: tests print when they fail."""

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            raw = _joined(self.rfile)
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        # The client signs its parts in chunks of its own, inside those of HTTP.
        return _joined(io.BytesIO(raw)) if self.headers.get("x-amz-decoded-content-length") else raw


def _joined(stream: io.BufferedIOBase | io.BytesIO) -> bytes:
    whole = b""
    while size := int(stream.readline().partition(b";")[0].strip() or b"0", 16):
        whole += stream.read(size)
        stream.readline()
    return whole


@contextlib.contextmanager
def small_s3() -> Iterator[SmallS3]:
    with SmallS3() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
