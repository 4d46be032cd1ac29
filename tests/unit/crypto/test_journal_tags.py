"""crypto/journal_tags: joinable by the writer, by nobody else, and for a node only within a day."""

from hypothesis import assume, given
from hypothesis import strategies as st

from restante.crypto.journal_tags import inbox_tag, session_tag
from restante.model.ids import InboxKey, SessionId
from support.spec.clauses import clause

DAY_20000_MS = 20_000 * 86_400_000
SECRET = bytes(range(32))
SESSION = SessionId(b"\x11" * 32)
INBOX = InboxKey(b"\x22" * 32)
secrets = st.binary(min_size=32, max_size=32)
sessions = st.binary(min_size=32, max_size=32).map(SessionId)
inboxes = st.binary(min_size=32, max_size=32).map(InboxKey)


def test_the_tags_of_known_inputs_are_these() -> None:
    # HMAC-SHA-256, cut to 16 bytes; journals of one session must stay joinable from release to release.
    assert session_tag(SECRET, SESSION).hex() == "71fab6e6429b4960b0dd279130ba7819"
    assert inbox_tag(SECRET, INBOX, at_ms=DAY_20000_MS).hex() == "9355ca7a6c9d97f946eefd574e73107f"


@clause("13.1")
@given(secrets, sessions)
def test_a_session_has_one_tag_at_a_writer(secret: bytes, session: SessionId) -> None:
    tag = session_tag(secret, session)
    assert tag == session_tag(secret, session)
    assert len(tag) == 16
    assert bytes(tag) not in session + secret


@clause("13.1")
@given(secrets, secrets, sessions)
def test_two_writers_tag_the_same_session_differently(one: bytes, other: bytes, session: SessionId) -> None:
    assume(one != other)
    assert session_tag(one, session) != session_tag(other, session)


@given(secrets, sessions, sessions)
def test_two_sessions_never_share_a_tag(secret: bytes, one: SessionId, other: SessionId) -> None:
    assume(one != other)
    assert session_tag(secret, one) != session_tag(secret, other)


@clause("13.1")
@given(secrets, inboxes, st.integers(0, 86_400_000 - 1))
def test_an_inbox_keeps_its_tag_for_exactly_one_day(secret: bytes, inbox: InboxKey, within_ms: int) -> None:
    of_the_day = inbox_tag(secret, inbox, at_ms=DAY_20000_MS)
    assert inbox_tag(secret, inbox, at_ms=DAY_20000_MS + within_ms) == of_the_day
    assert inbox_tag(secret, inbox, at_ms=DAY_20000_MS - 1) != of_the_day
    assert inbox_tag(secret, inbox, at_ms=DAY_20000_MS + 86_400_000) != of_the_day


@given(secrets, st.binary(min_size=32, max_size=32), st.integers(0, 2**40))
def test_a_session_and_an_inbox_of_the_same_bytes_have_different_tags(secret: bytes, raw: bytes, at_ms: int) -> None:
    assert session_tag(secret, SessionId(raw)) != inbox_tag(secret, InboxKey(raw), at_ms=at_ms)


@given(secrets, inboxes, inboxes, secrets)
def test_inboxes_and_nodes_are_told_apart(secret: bytes, one: InboxKey, other: InboxKey, elsewhere: bytes) -> None:
    assume(one != other)
    assume(secret != elsewhere)
    tag = inbox_tag(secret, one, at_ms=DAY_20000_MS)
    assert tag != inbox_tag(secret, other, at_ms=DAY_20000_MS)
    assert tag != inbox_tag(elsewhere, one, at_ms=DAY_20000_MS)
