"""core/deduplication: what is remembered of an arrival, and what it says about the next."""

import pytest

from restante.core.deduplication import (
    Fingerprint,
    classify_before_decryption,
    content_fingerprint,
    known_in_other_session,
    message_key,
    session_fingerprint,
)
from restante.core.inbox_events import KnownInOtherSession
from restante.model.ids import Address, SessionId
from restante.model.kinds import Kind, TtlType
from restante.model.states import Verdict
from restante.wire.ttl_header import TtlHeader
from support.fleet.journal_files import message
from support.spec.clauses import clause

ALICE, CAROL = Address(b"A" * 32), Address(b"C" * 32)
OLD, NEW = SessionId(b"o" * 32), SessionId(b"n" * 32)
HEADER = TtlHeader(created_at_ms=1, ttl_s=3_600, ttl_type=TtlType.ABSOLUTE)
SEEN = Fingerprint(b"session1", b"p" * 16, b"content1")


@clause("9.1")
@pytest.mark.parametrize(
    ("marks", "payload", "verdict"),
    [
        ([], b"p" * 16, None),
        ([SEEN], b"p" * 16, Verdict.DUPLICATE),
        ([SEEN], b"q" * 16, Verdict.COLLISION),
        ([SEEN._replace(session=b"session2")], b"p" * 16, None),
    ],
    ids=["never seen: open it", "seen, same bytes", "seen, other bytes", "seen in another session: open it"],
)
def test_the_verdict_before_opening(marks: list[Fingerprint], payload: bytes, verdict: Verdict | None) -> None:
    assert classify_before_decryption(marks, session=b"session1", payload=payload) is verdict


@clause("9.1")
@pytest.mark.parametrize(
    ("marks", "content", "answer"),
    [
        ([], b"content1", KnownInOtherSession.UNKNOWN),
        ([SEEN], b"content1", KnownInOtherSession.SAME_CONTENT),
        ([SEEN], b"content2", KnownInOtherSession.OTHER_CONTENT),
        (
            [SEEN, SEEN._replace(session=b"session3", content=b"content2")],
            b"content2",
            KnownInOtherSession.SAME_CONTENT,
        ),
        ([SEEN._replace(session=b"session2")], b"content1", KnownInOtherSession.UNKNOWN),
    ],
    ids=["never", "same words", "other words", "one of two", "only in this session"],
)
def test_whether_another_session_brought_it(
    marks: list[Fingerprint], content: bytes, answer: KnownInOtherSession
) -> None:
    assert known_in_other_session(marks, session=b"session2", content=content) is answer


def test_marks_tell_senders_sessions_and_messages_apart() -> None:
    keys = {message_key(sender, message(number)) for sender in (ALICE, CAROL) for number in (1, 2)}
    assert len(keys) == 4
    assert len({session_fingerprint(ALICE, session, message(1)) for session in (OLD, NEW)}) == 2


@pytest.mark.parametrize(
    "other",
    [
        (HEADER._replace(ttl_s=3_601), Kind.TEXT, b"hello"),
        (HEADER, Kind.CHAT, b"hello"),
        (HEADER, Kind.TEXT, b"hello!"),
    ],
)
def test_another_life_kind_or_body_is_another_content(other: tuple[TtlHeader, Kind, bytes]) -> None:
    assert content_fingerprint(HEADER, Kind.TEXT, b"hello") == content_fingerprint(HEADER, Kind.TEXT, b"hello")
    assert content_fingerprint(*other) != content_fingerprint(HEADER, Kind.TEXT, b"hello")
