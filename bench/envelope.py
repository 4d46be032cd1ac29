"""What strictness costs: our envelope codec against bare protobuf on the same 1 KiB message.

Bare protobuf is the limit, since ours calls it; the rest is the price of checking and of one encoding only.
"""

from bench.measure import ratio_line, take_turns
from restante.model.ids import InboxKey
from restante.wire.envelope import Envelope, decode_envelope, encode_envelope
from restante.wire.envelope_pb2 import Envelope as BareEnvelope

OPERATIONS = 20_000
ROUNDS = 9
ENVELOPE = Envelope(inbox_key=InboxKey(b"k" * 32), expires_at_ms=500_000 * 3_600_000, sealed=b"s" * 1_024)
RAW = encode_envelope(ENVELOPE)


def encode_ours() -> int:
    for _ in range(OPERATIONS):
        encode_envelope(ENVELOPE)
    return OPERATIONS


def encode_bare() -> int:
    for _ in range(OPERATIONS):
        BareEnvelope(
            version=1, inbox_key=ENVELOPE.inbox_key, expires_at_ms=ENVELOPE.expires_at_ms, sealed=ENVELOPE.sealed
        ).SerializeToString()
    return OPERATIONS


def decode_ours() -> int:
    for _ in range(OPERATIONS):
        decode_envelope(RAW)
    return OPERATIONS


def decode_bare() -> int:
    for _ in range(OPERATIONS):
        BareEnvelope.FromString(RAW)
    return OPERATIONS


def main() -> None:
    print("envelope codec, 1 KiB, one core")
    rates = take_turns(
        {
            "encode, checked": encode_ours,
            "bare protobuf encode": encode_bare,
            "decode, checked and canonical": decode_ours,
            "bare protobuf decode": decode_bare,
        },
        rounds=ROUNDS,
    )
    print(ratio_line(rates["encode, checked"], rates["bare protobuf encode"]))
    print(ratio_line(rates["decode, checked and canonical"], rates["bare protobuf decode"]))


if __name__ == "__main__":
    main()
