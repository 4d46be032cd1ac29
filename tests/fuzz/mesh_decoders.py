"""An atheris target: the decoders of the mesh's frames. Run as a script: `python tests/fuzz/mesh_decoders.py -runs=N`.

The first byte chooses the frame. A decoder may refuse with Malformed or TooLarge; what it accepts must encode to the
same bytes. Anything else is a finding.
"""

import sys
from collections.abc import Callable

import atheris

with atheris.instrument_imports(include=["restante"]):
    from restante.model.errors import Malformed, TooLarge
    from restante.wire.descriptors import decode_descriptor, encode_descriptor
    from restante.wire.frames.codec import Unknown
    from restante.wire.frames.mesh import MESH_CLASSES, decode_mesh_body
    from restante.wire.merkle import decode_path, encode_path
    from restante.wire.prekey_records import decode_record, encode_record

FRAMES = sorted(MESH_CLASSES)
VALUES: tuple[Callable[[bytes], bytes], ...] = (
    lambda raw: encode_descriptor(decode_descriptor(raw)),
    lambda raw: encode_record(decode_record(raw)),
    lambda raw: encode_path(decode_path(raw)),
)


def decode_any(data: bytes) -> None:
    if not data:
        return
    which, body = data[0], data[1:]
    try:
        if which % 4 == 0:
            again = VALUES[which // 4 % len(VALUES)](body)
        else:
            frame = decode_mesh_body(FRAMES[which % len(FRAMES)], body)
            if isinstance(frame, Unknown):
                return
            again = frame.body()
    except (Malformed, TooLarge):
        return
    if again != body:
        raise AssertionError("accepted bytes that encode differently")


if __name__ == "__main__":
    atheris.Setup(sys.argv, decode_any)
    atheris.Fuzz()
