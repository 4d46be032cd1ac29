"""wire/envelope.proto: the generated code is that of the .proto file beside it."""

from pathlib import Path

import pytest
from grpc_tools import protoc

import restante.wire

WIRE = Path(restante.wire.__file__).parent
SRC = WIRE.parent.parent


@pytest.mark.parametrize("name", ["envelope_pb2.py", "envelope_pb2.pyi"])
def test_generated_code_is_what_make_proto_writes(tmp_path: Path, name: str) -> None:
    status = protoc.main(
        ["protoc", f"-I{SRC}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", str(WIRE / "envelope.proto")]
    )
    assert status == 0
    fresh = (tmp_path / "restante" / "wire" / name).read_text("utf-8")
    assert fresh == (WIRE / name).read_text("utf-8"), "run `make proto`"
