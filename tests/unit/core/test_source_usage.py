"""core/source_usage against a plain list of what is stored."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from restante.core.mailbox import Keep
from restante.core.source_usage import CHUNK_IDS, Share, SourceUsage
from restante.model.ids import InboxKey, PayloadHash
from restante.model.sources import UNKNOWN_SOURCE, Source

SOURCES = [UNKNOWN_SOURCE, Source(b"one"), Source(b"two"), Source(b"six")]
INBOXES = [InboxKey(bytes([number]) * 32) for number in range(3)]
KEEPS = st.lists(
    st.builds(
        Keep,
        st.sampled_from(INBOXES),
        st.just(PayloadHash(bytes(32))),
        st.just(1),
        st.binary(min_size=1, max_size=50),
        st.sampled_from(SOURCES),
    ),
    min_size=1,
    max_size=8,
)


class Usage(RuleBasedStateMachine):
    """Blobs are stored, deleted, committed and rolled back in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.usage = SourceUsage()
        self.next_id = CHUNK_IDS - 10
        self.held: dict[int, Keep] = {}
        self.committed: dict[int, Keep] = {}
        self.counted: set[InboxKey] = set()

    @rule(keeps=KEEPS, gap=st.integers(0, 3))
    def store(self, keeps: list[Keep], gap: int) -> None:
        self.next_id += gap
        self.usage.stored(self.next_id, keeps)
        self.held |= dict(enumerate(keeps, self.next_id))
        self.next_id += len(keeps)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.held:
            blob_id = data.draw(st.sampled_from(sorted(self.held)))
            keep = self.held.pop(blob_id)
            self.usage.deleted(blob_id, keep.inbox_key, len(keep.envelope))

    @rule(inbox=st.sampled_from(INBOXES))
    def count(self, inbox: InboxKey) -> None:
        own = [(blob_id, len(keep.envelope)) for blob_id, keep in self.held.items() if keep.inbox_key == inbox]
        self.usage.count_mailbox(inbox, own)
        self.counted.add(inbox)

    @rule()
    def commit(self) -> None:
        self.usage.commit()
        self.committed = dict(self.held)

    @rule()
    def roll_back(self) -> None:
        self.usage.roll_back()
        self.held = dict(self.committed)
        self.counted.clear()

    @invariant()
    def totals_are_what_is_held(self) -> None:
        totals: Counter[Source] = Counter()
        for keep in self.held.values():
            totals[keep.source] += len(keep.envelope)
        for source in SOURCES[1:]:
            assert self.usage.total_bytes(source) == totals[source]
        assert self.usage.total_bytes(UNKNOWN_SOURCE) == 0

    @invariant()
    def shares_are_what_is_held(self) -> None:
        for inbox in INBOXES:
            for source in SOURCES[1:]:
                sizes = [
                    len(keep.envelope)
                    for keep in self.held.values()
                    if (keep.inbox_key, keep.source) == (inbox, source)
                ]
                expected = Share(len(sizes), sum(sizes)) if inbox in self.counted else None
                assert self.usage.share(inbox, source) == expected


TestUsage = Usage.TestCase
TestUsage.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
