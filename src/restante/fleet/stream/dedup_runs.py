"""Fingerprints that sessions have seen (SPEC 9.2), in sorted runs, so that a batch looks up only its own keys.

A run holds every fingerprint of each key in it; a newer run replaces an older one for its keys. Fingerprints older than
the window and a day, by their recipient's clock, are dropped when runs are merged, and when they are most of the oldest
run. Runs are mapped into memory and merged one key range at a time, so a task holds only a part of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.kernels.arrivals_schema import (
    EMPTY_STATE,
    NO_TIME,
    SEEN,
    SESSION,
    STATE,
    Flags,
    Ints,
    Words,
    halves,
)
from restante.fleet.kernels.arrivals_state import CLOCK_SLACK_MS
from restante.fleet.stream.bucket_files import BucketWriter, FileRef
from restante.fleet.stream.compaction import merged_by_level
from restante.fleet.stream.rows import taken
from restante.fleet.stream.state_tables import DEDUP_RUN
from restante.policy.dedup import DedupLimits

MERGED_AT_ONCE: Final = 262_144  # rows, about: keys are spread evenly
_KEYS: Final = 2**64
_MIX: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))


def keys_of(tags: Any, messages: Any) -> Words:
    """A key for each (session, message). Keys that meet by chance cost a look, never an answer."""
    tag, message = halves(tags.cast(pa.binary())), halves(messages.cast(pa.binary()))
    mixed = (tag[:, 0] ^ (message[:, 0] * _MIX[0])) + (tag[:, 1] ^ (message[:, 1] * _MIX[1])) * _MIX[2]
    key: Words = mixed ^ (mixed >> np.uint64(29))
    return key


def look_up(writer: BucketWriter, runs: Sequence[FileRef], keys: Words) -> Any:
    """What is known under these keys: rows of STATE."""
    if not runs:
        return EMPTY_STATE
    wanted = np.unique(keys)
    found = [EMPTY_STATE]
    for ref in reversed(runs):
        if not len(wanted):
            break
        is_here = np.zeros(len(wanted), dtype=np.bool_)
        for piece in writer.read_state(ref).to_batches():
            have = piece["key"].to_numpy()
            some = slice(np.searchsorted(wanted, have[0]), np.searchsorted(wanted, have[-1], side="right"))
            low, high = (np.searchsorted(have, wanted[some], side=side) for side in ("left", "right"))
            hit = high > low
            is_here[some] |= hit
            if hit.any():
                sizes = (high - low)[hit]
                ends = np.cumsum(sizes)
                places = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes) + np.repeat(low[hit], sizes)
                found.append(_as_state(pa.Table.from_batches([piece]).take(pa.array(places))))
        wanted = wanted[~is_here]
    return pa.concat_tables(found)


def add_run(
    writer: BucketWriter, runs: tuple[FileRef, ...], state: Any, sessions: Any, dedup: DedupLimits
) -> tuple[FileRef, ...]:
    """With the marks in `state` as the newest run; `sessions` tell each recipient's clock."""
    marks = state.filter(pc.equal(state["entry"], SEEN))
    columns = {name: marks[name].cast(DEDUP_RUN.field(name).type) for name in DEDUP_RUN.names if name != "key"}
    columns["key"] = pa.array(keys_of(marks["session_tag"], marks["message_id"]))
    run = _sorted(pa.table([columns[name] for name in DEDUP_RUN.names], schema=DEDUP_RUN))
    refs = (*runs, *writer.write_state("seen", run))
    clocks = _clocks(sessions)

    def merge(old: Sequence[FileRef], level: int) -> tuple[FileRef, ...]:
        young = (_without_old(part, clocks, dedup) for part in _merged(writer, old))
        return writer.write_parts("seen", young, level=level)

    merged = merged_by_level(refs, merge)
    return merged if merged == refs else _with_young_run_first(writer, merged, clocks, dedup)


def _with_young_run_first(
    writer: BucketWriter, runs: tuple[FileRef, ...], clocks: "_Clocks", dedup: DedupLimits
) -> tuple[FileRef, ...]:
    oldest, *others = runs

    def young() -> Iterator[Any]:
        return (_without_old(part, clocks, dedup) for part in _parts(writer, oldest))

    if sum(map(len, young())) * 2 > oldest.rows:
        return runs
    return (*writer.write_parts("seen", young(), level=oldest.level), *others)


def without_sessions(writer: BucketWriter, runs: tuple[FileRef, ...], tags: Any) -> tuple[FileRef, ...]:
    """The runs without the marks of these sessions."""
    marks = tags.cast(pa.binary(16))

    def others(ref: FileRef) -> Iterator[Any]:
        return (part.filter(pc.invert(pc.is_in(part["session_tag"], value_set=marks))) for part in _parts(writer, ref))

    kept: list[FileRef] = []
    for ref in runs:
        is_concerned = pc.any(pc.is_in(writer.read_state(ref)["session_tag"], value_set=marks)).as_py()
        kept += writer.write_parts("seen", others(ref), level=ref.level) if is_concerned else (ref,)
    return tuple(kept)


def _parts(writer: BucketWriter, ref: FileRef) -> Iterator[Any]:
    return (pa.Table.from_batches([piece]) for piece in writer.read_state(ref).to_batches())


def _merged(writer: BucketWriter, refs: Sequence[FileRef]) -> Iterator[Any]:
    """One range of keys after the other."""
    newest_first = [writer.read_state(ref).to_batches() for ref in reversed(refs)]
    ranges = -(-sum(ref.rows for ref in refs) // MERGED_AT_ONCE)
    for number in range(ranges):
        first, end = _KEYS * number // ranges, _KEYS * (number + 1) // ranges
        parts: list[Any] = []
        newer = np.empty(0, dtype=np.uint64)
        for run in newest_first:
            part = _between(run, np.uint64(first), np.uint64(end - 1))
            keys = part["key"].to_numpy()
            stays = ~_is_in(keys, newer)
            parts.append(taken(part, stays))
            newer = np.sort(np.concatenate([newer, keys[stays]]))
        yield _sorted(pa.concat_tables(parts))


def _between(run: Sequence[Any], first: np.uint64, last: np.uint64) -> Any:
    slices = []
    for piece in run:
        keys = piece["key"].to_numpy()
        start, end = np.searchsorted(keys, first), np.searchsorted(keys, last, side="right")
        slices.append(piece.slice(start, end - start))
    return pa.Table.from_batches(slices, schema=DEDUP_RUN)


def _is_in(keys: Words, among: Words) -> Flags:
    if not len(among):
        return np.zeros(len(keys), dtype=np.bool_)
    found: Flags = among[np.minimum(np.searchsorted(among, keys), len(among) - 1)] == keys
    return found


def _sorted(run: Any) -> Any:
    return run.take(pa.array(np.argsort(run["key"].to_numpy(), kind="stable")))


class _Clocks(NamedTuple):
    """The latest moment by each writer's clock; writers in order."""

    writers: Ints
    latest_ms: Ints


def _clocks(sessions: Any) -> _Clocks:
    heads = sessions.filter(pc.equal(sessions["entry"], SESSION))
    writers, place = np.unique(heads["writer"].to_numpy(), return_inverse=True)
    latest_ms = np.full(len(writers) + 1, NO_TIME, dtype=np.int64)
    np.maximum.at(latest_ms, place, heads["at_ms"].to_numpy())
    return _Clocks(writers, latest_ms)


def _without_old(run: Any, clocks: _Clocks, dedup: DedupLimits) -> Any:
    writers = clocks.writers
    writer = run["writer"].to_numpy()
    at = np.searchsorted(writers, writer)
    at[at == len(writers)] = 0
    is_known = writers[at] == writer if len(writers) else np.zeros(len(writer), dtype=np.bool_)
    age_ms = clocks.latest_ms[at] - run["at_ms"].to_numpy()
    # All sessions of a writer that is not known are forgotten: one that speaks again brings its marks with it.
    return taken(run, is_known & (age_ms < dedup.window_ms + CLOCK_SLACK_MS))


def _as_state(run: Any) -> Any:
    size = len(run)
    zeros = {"first": pa.int64(), "last": pa.int64(), "flag": pa.int8(), "reason": pa.int8()}
    columns = {name: pa.array(np.zeros(size, dtype=np.int64)).cast(kind) for name, kind in zeros.items()}
    columns["entry"] = pa.array(np.full(size, SEEN, dtype=np.int8))
    columns |= {name: run[name].cast(STATE.field(name).type) for name in DEDUP_RUN.names if name != "key"}
    return pa.table([columns[name] for name in STATE.names], schema=STATE)
