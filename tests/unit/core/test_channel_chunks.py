"""What becomes of a draft: names that follow from the group, threads, and who follows whom into the grave."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from restante.core.channel_chunks import (
    ChannelMessage,
    RenderedChunk,
    channel_of,
    chunk_id,
    idempotency_key,
    lane_of,
    neighbours_to_ask,
    plan,
)
from restante.model.ids import message_id
from restante.policy.channel_platforms import Format
from restante.wire.channel_chunk import GroupId, Strategy
from support.outbox.entries import entry

GROUP = GroupId(bytes(16))
DRAFT = ChannelMessage(channel="ops", chat="c/1", markdown="x", title="T", reply_to="9", thread="4")


def test_chunks_carry_their_place_and_only_the_first_one_answers() -> None:
    chunks = plan(DRAFT, [RenderedChunk("a", "A"), RenderedChunk("b", "B")], form=Format.TELEGRAM_HTML, group=GROUP)
    assert [(one.index, one.count, one.text, one.plain) for one in chunks] == [(0, 2, "a", "A"), (1, 2, "b", "B")]
    assert [one.reply_to for one in chunks] == ["9", None]
    assert [one.thread for one in chunks] == ["4", "4"]
    assert {(one.group, one.channel, one.chat, one.format) for one in chunks} == {
        (GROUP, "ops", "c/1", "telegram_html")
    }


@given(group=st.binary(min_size=16, max_size=16).map(GroupId), indexes=st.sets(st.integers(0, 65_535), max_size=20))
def test_ids_of_chunks_are_uuids_of_their_own_and_follow_from_the_group(group: GroupId, indexes: set[int]) -> None:
    ids = {index: chunk_id(group, index) for index in indexes}
    assert len(set(ids.values())) == len(indexes)
    assert all(message_id(one) == chunk_id(group, index) for index, one in ids.items())


def test_the_channel_is_read_back_from_a_lane_whatever_the_chat_is_called() -> None:
    assert channel_of(lane_of("ops", "a/b/c")) == "ops"
    assert lane_of("ops", "a/b") != lane_of("ops", "a")


def test_a_key_is_the_same_for_the_same_text_and_another_for_each_part() -> None:
    one = chunk_id(GROUP, 0)
    whole = idempotency_key(one, offset=0, limit=None)
    parts = {idempotency_key(one, offset=offset, limit=limit) for offset in (0, 10) for limit in (10, 20)}
    assert whole == one.hex()
    assert len(parts | {whole}) == 5


def test_a_later_chunk_asks_for_the_one_before_it() -> None:
    first, second, third = plan(DRAFT, [RenderedChunk("a", "a")] * 3, form=Format.PLAIN, group=GROUP)
    fresh = entry(1)
    assert neighbours_to_ask(first, fresh) == ()
    assert neighbours_to_ask(second, fresh) == (chunk_id(GROUP, 0),)
    assert neighbours_to_ask(third, fresh) == (chunk_id(GROUP, 1),)


def test_a_chunk_that_comes_back_by_itself_also_asks_for_the_next() -> None:
    first, second, third = plan(DRAFT, [RenderedChunk("a", "a")] * 3, form=Format.PLAIN, group=GROUP)
    again = entry(1)._replace(first_dead_at_ms=5)
    assert neighbours_to_ask(first, again) == (chunk_id(GROUP, 1),)
    assert neighbours_to_ask(second, again) == (chunk_id(GROUP, 0), chunk_id(GROUP, 2))
    assert neighbours_to_ask(third, again) == (chunk_id(GROUP, 1),)


def test_with_best_effort_nobody_is_asked() -> None:
    draft = dataclasses.replace(DRAFT, strategy=Strategy.BEST_EFFORT)
    chunks = plan(draft, [RenderedChunk("a", "a")] * 3, form=Format.PLAIN, group=GROUP)
    assert [neighbours_to_ask(one, entry(1)._replace(first_dead_at_ms=5)) for one in chunks] == [(), (), ()]
