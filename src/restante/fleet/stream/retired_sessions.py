"""Sessions that were silent for longer than the window (SPEC 9.2): their state is dropped, and a key of each is kept.

This changes no result. A session that continues is found by its key and reprocessed from its first event, which the
table `events` has. A hash collision of keys costs one useless reprocessing.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.kernels.arrivals_schema import NO_TIME, SESSION, Flags, Words, halves
from restante.fleet.kernels.arrivals_state import CLOCK_SLACK_MS
from restante.fleet.stream.bucket_files import BucketWriter, FileRef
from restante.fleet.stream.compaction import merged_by_level
from restante.fleet.stream.state_tables import KEYS
from restante.policy.dedup import DedupLimits

_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


def are_retired(writer: BucketWriter, refs: Sequence[FileRef], tags: Any) -> Flags:
    """For each tag, whether its session may be a forgotten one."""
    keys = _keys_of(tags)
    found = np.zeros(len(keys), dtype=np.bool_)
    for ref in refs:
        have = writer.read_state(ref)["key"].to_numpy()
        found |= have[np.minimum(np.searchsorted(have, keys), len(have) - 1)] == keys
    return found


def silent_tags(sessions: Any, active: Any, dedup: DedupLimits) -> Any:
    """Return sessions without events for the window and a day; `active` are those that just had events.

    By their recipient's clock, or by the median of the clocks of those who wrote just now: a recipient that has gone
    for good has no clock that goes on, and a single wrong clock must not make all others look silent.
    """
    heads = sessions.filter(pc.equal(sessions["entry"], SESSION))
    if not len(heads) or not len(active):
        return heads["session_tag"].slice(0, 0)
    _, latest = _clocks(active.filter(pc.equal(active["entry"], SESSION)))
    now_ms = int(np.median(latest)) if len(latest) else NO_TIME
    place, clock = _clocks(heads)
    age_ms = np.maximum(clock[place], now_ms) - heads["at_ms"].to_numpy()
    return heads["session_tag"].filter(pa.array(age_ms >= dedup.window_ms + CLOCK_SLACK_MS))


def with_retired(writer: BucketWriter, refs: tuple[FileRef, ...], tags: Any) -> tuple[FileRef, ...]:
    """The keys with those of these sessions."""

    def merge(old: Sequence[FileRef], level: int) -> tuple[FileRef, ...]:
        keys = np.unique(np.concatenate([writer.read_state(ref)["key"].to_numpy() for ref in old]))
        return writer.write_parts("forgotten", [pa.table([pa.array(keys)], schema=KEYS)], level=level)

    new = pa.table([pa.array(np.unique(_keys_of(tags)))], schema=KEYS)
    return merged_by_level((*refs, *writer.write_state("forgotten", new)), merge)


def _clocks(heads: Any) -> tuple[Any, Any]:
    """For each row the place of its writer among the writers; and the latest moment of each writer."""
    writers, place = np.unique(heads["writer"].to_numpy(), return_inverse=True)
    clock = np.full(len(writers), NO_TIME, dtype=np.int64)
    np.maximum.at(clock, place, heads["at_ms"].to_numpy())
    return place, clock


def _keys_of(tags: Any) -> Words:
    words = halves(tags.cast(pa.binary()))
    keys: Words = words[:, 0] ^ (words[:, 1] * _MIX)
    return keys
