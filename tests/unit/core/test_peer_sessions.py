"""core/peer_sessions: each event in each state of a contact, as in the table of docs/protocol/sessions.md."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.peer_session_events import (
    CannotRead,
    CannotReadReceived,
    DeleteSessions,
    Effect,
    EncryptFailed,
    Event,
    KnownSession,
    Lost,
    LostReceived,
    Opened,
    OpenSession,
    Owed,
    Read,
    Reencrypt,
    ReportLimit,
    SendControl,
    StateLost,
    TimePassed,
    Unreadable,
    UnreadMessage,
)
from restante.core.peer_sessions import PeerSessions, current_session, next_generation, next_wake_ms, step
from restante.model.ids import MessageId, PayloadHash, SessionId
from restante.policy.session_recovery import (
    FIRST_RETRY_MS,
    MAX_GENERATION,
    MAX_OPENINGS_A_DAY,
    MAX_REENCRYPTED_BYTES_A_DAY,
    MAX_RETRY_MS,
    MAX_SESSIONS,
    MAX_UNREAD,
    RetryInterval,
)
from support.spec.clauses import clause

NOW_MS = 1_000_000_000_000
OLD, CURRENT, NEWER, UNKNOWN = (SessionId(bytes([n]) * 32) for n in (1, 2, 3, 4))


def unread(session: SessionId, generation: int, name: bytes = b"m") -> UnreadMessage:
    return UnreadMessage(PayloadHash(name.ljust(32)), MessageId(name.ljust(16)), session, generation)


def owed(session: SessionId, generation: int, name: bytes = b"m", size: int = 100) -> Owed:
    return Owed(MessageId(name.ljust(16)), PayloadHash(name.ljust(32)), session, generation, size)


def opened(generation: int) -> Opened:
    return Opened(KnownSession(SessionId(bytes([9, generation]) * 16), generation, is_initiator=True))


def contact(*sessions: KnownSession) -> PeerSessions:
    highest = max((each.generation for each in sessions), default=0)
    return PeerSessions(sessions=tuple(sorted(sessions)), highest_generation=highest)


NO_SESSION = contact()
UNANSWERED = contact(KnownSession(CURRENT, 2, is_initiator=True))
READ_IN_CURRENT = contact(
    KnownSession(OLD, 1, is_initiator=True, is_read=True), KnownSession(CURRENT, 2, is_initiator=True, is_read=True)
)
STATES = {"no session": NO_SESSION, "unanswered opening": UNANSWERED, "read": READ_IN_CURRENT}


def after(state: PeerSessions, *events: Event) -> tuple[PeerSessions, list[Effect]]:
    """As the client does: a question follows an unreadable message in the same transaction."""
    effects: list[Effect] = []
    for event in events:
        state, more = step(state, event, now_ms=NOW_MS)
        effects += more
        if isinstance(event, Unreadable):
            state, more = step(state, TimePassed(), now_ms=NOW_MS)
            effects += more
    return state, effects


@clause("8.11")
@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
@given(session=st.sampled_from([OLD, CURRENT, NEWER, UNKNOWN]), generation=st.integers(0, 9))
def test_bytes_without_a_valid_tag_change_nothing(state: PeerSessions, session: SessionId, generation: int) -> None:
    assert after(state, Unreadable(unread(session, generation), has_valid_tag=False)) == (state, [])


@clause("8.7")
@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_a_newer_session_in_which_the_peer_was_read_is_the_current_one(state: PeerSessions) -> None:
    now, effects = after(state, Read(NEWER, 3, MessageId(b"x" * 16)))
    current = current_session(now)
    assert current is not None
    assert (current.session_id, effects) == (NEWER, [])


def test_a_message_read_in_an_older_session_leaves_the_current_one() -> None:
    now, _ = after(READ_IN_CURRENT, Read(OLD, 1, MessageId(b"x" * 16)))
    current = current_session(now)
    assert current is not None
    assert current.session_id == CURRENT


def test_of_two_sessions_of_one_generation_the_lower_id_is_newer() -> None:
    both = contact(
        KnownSession(OLD, 2, is_initiator=True, is_read=True),
        KnownSession(CURRENT, 2, is_initiator=False, is_read=True),
    )
    current = current_session(both)
    assert current is not None
    assert current.session_id == OLD


def test_an_unanswered_opening_is_sent_in_only_while_the_peer_was_read_nowhere() -> None:
    current = current_session(UNANSWERED)
    assert current is not None
    assert current.session_id == CURRENT
    now, _ = after(UNANSWERED, Read(OLD, 1, MessageId(b"x" * 16)))
    current = current_session(now)
    assert current is not None
    assert current.session_id == OLD


@clause("8.7")
def test_an_unreadable_message_of_an_older_session_is_asked_for_in_the_current_one() -> None:
    now, effects = after(READ_IN_CURRENT, Unreadable(unread(OLD, 1)))
    assert effects == [SendControl(CURRENT, CannotRead((unread(OLD, 1).payload_hash,)))]
    assert now.sessions == READ_IN_CURRENT.sessions


@clause("8.7")
@pytest.mark.parametrize(("session", "generation"), [(CURRENT, 2), (NEWER, 3), (UNKNOWN, 7)])
def test_an_unreadable_message_of_the_current_or_a_newer_session_opens_one(session: SessionId, generation: int) -> None:
    now, effects = after(READ_IN_CURRENT, Unreadable(unread(session, generation)))
    question = CannotRead((unread(session, generation).payload_hash,))
    assert effects == [OpenSession(generation + 1, question, uses_one_time_prekey=False)]
    current = current_session(now)
    assert current is not None
    assert current.session_id == CURRENT  # until the peer answers


def test_without_any_session_an_unreadable_message_opens_one_above_its_generation() -> None:
    _, effects = after(NO_SESSION, Unreadable(unread(UNKNOWN, 4)))
    assert effects == [OpenSession(5, CannotRead((unread(UNKNOWN, 4).payload_hash,)), uses_one_time_prekey=False)]


def test_an_unanswered_opening_newer_than_all_else_is_used_again() -> None:
    _, effects = after(UNANSWERED, Unreadable(unread(OLD, 1)))
    assert effects == [SendControl(CURRENT, CannotRead((unread(OLD, 1).payload_hash,)))]
    _, effects = after(UNANSWERED, Unreadable(unread(NEWER, 5)))
    assert isinstance(effects[0], OpenSession)


@clause("8.7")
def test_while_an_interval_runs_messages_are_remembered_and_asked_for_when_it_ends() -> None:
    state, _ = after(READ_IN_CURRENT, Unreadable(unread(OLD, 1, b"one")))
    state, effects = after(
        state, Unreadable(unread(OLD, 1, b"two")), Unreadable(unread(OLD, 1, b"three")), TimePassed()
    )
    assert effects == []
    wake_ms = next_wake_ms(state, now_ms=NOW_MS)
    assert wake_ms == NOW_MS + FIRST_RETRY_MS
    state, asked = step(state, TimePassed(), now_ms=wake_ms)
    hashes = tuple(unread(OLD, 1, name).payload_hash for name in (b"two", b"three"))
    assert asked == (SendControl(CURRENT, CannotRead(hashes)),)
    assert next_wake_ms(state, now_ms=wake_ms) is None


@clause("8.7")
def test_the_interval_doubles_up_to_a_day_and_goes_back_when_the_peer_answers() -> None:
    state, now_ms, delays = READ_IN_CURRENT, NOW_MS, []
    for number in range(12):
        state, _ = step(state, Unreadable(unread(OLD, 1, b"%d" % number)), now_ms=now_ms)
        state, effects = step(state, TimePassed(), now_ms=now_ms)
        assert effects
        delays.append(state.question.allowed_at_ms - now_ms)
        now_ms = state.question.allowed_at_ms
    assert delays[:3] == [FIRST_RETRY_MS, 2 * FIRST_RETRY_MS, 4 * FIRST_RETRY_MS]
    assert delays[-1] == MAX_RETRY_MS
    state, _ = step(state, Read(CURRENT, 2, MessageId(b"x" * 16)), now_ms=now_ms)
    assert state.question.delay_ms == MAX_RETRY_MS
    state, _ = step(state, Read(NEWER, 3, MessageId(b"y" * 16)), now_ms=now_ms)
    assert state.question.delay_ms == FIRST_RETRY_MS


def test_an_interval_that_ends_in_an_impossible_future_counts_as_over() -> None:
    jumped = READ_IN_CURRENT._replace(question=RetryInterval(NOW_MS + MAX_RETRY_MS + 1))
    assert after(jumped, Unreadable(unread(OLD, 1)))[1] != []


def test_questions_and_openings_have_separate_intervals() -> None:
    _, effects = after(READ_IN_CURRENT, Unreadable(unread(OLD, 1, b"a")), Unreadable(unread(NEWER, 3, b"b")))
    assert [type(effect) for effect in effects] == [SendControl, OpenSession]


def test_a_message_read_under_its_id_is_not_asked_for_again() -> None:
    state, _ = after(READ_IN_CURRENT, Unreadable(unread(OLD, 1, b"a")), Unreadable(unread(OLD, 1, b"b")))
    state, _ = after(state, Read(CURRENT, 2, unread(OLD, 1, b"b").message_id))
    assert state.unread == ()


def test_the_list_of_unread_messages_is_bounded() -> None:
    state, _ = after(READ_IN_CURRENT, *(Unreadable(unread(OLD, 1, b"%d" % n)) for n in range(MAX_UNREAD + 9)))
    assert len(state.unread) == MAX_UNREAD
    assert state.unread[-1] == unread(OLD, 1, b"%d" % (MAX_UNREAD + 8))


@clause("8.7")
def test_only_what_is_owed_and_was_named_and_is_in_another_session_is_encrypted_again() -> None:
    mine = (owed(OLD, 1, b"named"), owed(OLD, 1, b"other"), owed(CURRENT, 2, b"here"))
    hashes = frozenset({mine[0].payload_hash, mine[2].payload_hash, PayloadHash(b"stranger".ljust(32))})
    state, effects = after(READ_IN_CURRENT, CannotReadReceived(hashes, mine))
    assert effects == [Reencrypt(mine[0].message_id)]
    assert state.sessions == READ_IN_CURRENT.sessions


@clause("8.7")
def test_all_of_an_opening_that_the_peer_never_answered_is_encrypted_again_in_its_order() -> None:
    state = contact(KnownSession(OLD, 1, is_initiator=True), KnownSession(CURRENT, 2, is_initiator=False, is_read=True))
    mine = (owed(OLD, 1, b"a"), owed(OLD, 1, b"b"), owed(OLD, 1, b"c"), owed(CURRENT, 2, b"d"))
    _, effects = after(state, CannotReadReceived(frozenset({mine[1].payload_hash}), mine))
    assert effects == [Reencrypt(each.message_id) for each in mine[:3]]
    _, effects = after(state, CannotReadReceived(frozenset({mine[3].payload_hash}), mine))
    assert effects == []


@clause("8.7")
def test_lost_encrypts_again_what_is_owed_from_older_sessions() -> None:
    mine = (owed(OLD, 1, b"a"), owed(CURRENT, 2, b"b"), owed(NEWER, 3, b"c"))
    _, effects = after(READ_IN_CURRENT, Read(NEWER, 3, MessageId(b"x" * 16)), LostReceived(NEWER, 3, mine))
    assert effects == [Reencrypt(mine[0].message_id), Reencrypt(mine[1].message_id)]


@clause("8.7")
@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_known_loss_deletes_the_sessions_keeps_generations_and_opens_one(state: PeerSessions) -> None:
    now, effects = after(state, StateLost())
    gone = tuple(each.session_id for each in state.sessions)
    opening = OpenSession(state.highest_generation + 1, Lost(), uses_one_time_prekey=False)
    assert effects == ([DeleteSessions(gone), opening] if gone else [opening])
    assert now.sessions == ()
    assert next_generation(now) == state.highest_generation + 2


@clause("4.4")
def test_a_session_that_cannot_encrypt_is_deleted_and_replaced_within_the_interval() -> None:
    state, effects = after(READ_IN_CURRENT, EncryptFailed(CURRENT))
    assert effects == [DeleteSessions((CURRENT,)), OpenSession(3, CannotRead(()), uses_one_time_prekey=False)]
    state, effects = after(state, EncryptFailed(OLD))
    assert effects == [DeleteSessions((OLD,))]


@clause("8.7")
def test_at_most_ten_sessions_a_day_are_opened_for_recovery() -> None:
    state, opened, limited, now_ms = READ_IN_CURRENT, 0, 0, NOW_MS - NOW_MS % 86_400_000
    for _ in range(MAX_OPENINGS_A_DAY + 2):
        state, effects = step(state, StateLost(), now_ms=now_ms)
        opened += sum(isinstance(effect, OpenSession) for effect in effects)
        limited += sum(effect == ReportLimit("openings") for effect in effects)
    assert (opened, limited) == (MAX_OPENINGS_A_DAY, 2)
    _, effects = step(state, StateLost(), now_ms=now_ms + 86_400_000)
    assert any(isinstance(effect, OpenSession) for effect in effects)


@clause("8.7")
def test_at_most_twenty_megabytes_a_day_are_encrypted_again() -> None:
    half = MAX_REENCRYPTED_BYTES_A_DAY // 2
    mine = tuple(owed(OLD, 1, name, size=half) for name in (b"a", b"b", b"c"))
    hashes = frozenset(each.payload_hash for each in mine)
    _, effects = after(READ_IN_CURRENT, CannotReadReceived(hashes, mine))
    assert effects == [
        Reencrypt(mine[0].message_id),
        Reencrypt(mine[1].message_id),
        ReportLimit("reencrypted_bytes"),
    ]


@given(
    st.lists(
        st.one_of(
            st.builds(Read, st.sampled_from([OLD, CURRENT, NEWER]), st.integers(1, 4), st.just(MessageId(b"x" * 16))),
            st.builds(Unreadable, st.builds(unread, st.sampled_from([OLD, NEWER, UNKNOWN]), st.integers(1, 5))),
            st.builds(
                lambda g: Opened(KnownSession(SessionId(bytes([9, g]) * 16), g, is_initiator=True)), st.integers(1, 5)
            ),
            st.just(TimePassed()),
        ),
        max_size=30,
    )
)
def test_without_loss_the_current_session_never_gets_older_once_the_peer_was_read(events: list[Event]) -> None:
    state, rank = NO_SESSION, None
    for event in events:
        state, _ = step(state, event, now_ms=NOW_MS)
        current = current_session(state)
        if current is not None and current.is_read:
            assert rank is None or current.generation >= rank
            rank = current.generation


def test_one_question_names_all_that_arrived_together() -> None:
    state, _ = step(READ_IN_CURRENT, Unreadable(unread(OLD, 1, b"a")), now_ms=NOW_MS)
    state, _ = step(state, Unreadable(unread(OLD, 1, b"b")), now_ms=NOW_MS)
    _, effects = step(state, TimePassed(), now_ms=NOW_MS)
    hashes = tuple(unread(OLD, 1, name).payload_hash for name in (b"a", b"b"))
    assert effects == (SendControl(CURRENT, CannotRead(hashes)),)


def test_a_message_in_a_settled_session_leaves_the_same_object() -> None:
    settled = contact(KnownSession(CURRENT, 2, is_initiator=True, is_read=True, is_confirmed=True))
    state, effects = step(settled, Read(CURRENT, 2, MessageId(b"x" * 16)), now_ms=NOW_MS)
    assert state is settled
    assert effects == ()


def test_sessions_of_a_contact_are_bounded_and_the_current_and_the_newest_stay() -> None:
    state = contact(KnownSession(CURRENT, 1, is_initiator=True, is_read=True))
    deleted: list[SessionId] = []
    for generation in range(2, MAX_SESSIONS + 9):
        state, effects = step(state, opened(generation), now_ms=NOW_MS)
        deleted += [gone for effect in effects if isinstance(effect, DeleteSessions) for gone in effect.session_ids]
    assert len(state.sessions) == MAX_SESSIONS
    assert len(deleted) == 8
    kept = {each.generation for each in state.sessions}
    assert {1, MAX_SESSIONS + 8} <= kept


def test_the_generation_never_outgrows_its_field() -> None:
    state, _ = after(NO_SESSION, Unreadable(unread(UNKNOWN, MAX_GENERATION)))
    assert next_generation(state) == MAX_GENERATION
