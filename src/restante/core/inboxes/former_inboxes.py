"""How long an inbox or a place that we left is still read, and how contacts hear of the one we use (SPEC 8.8)."""

from typing import Final

from restante.policy.completion import DAY_MS, STORED_TTL_MS

READ_MS: Final = 30 * DAY_MS  # SPEC 8.8: the old inbox is read for 30 more days
RETELL_MS: Final = 7 * DAY_MS
"""A contact that has not used our newest access secret is told again: it may have been away for longer than nodes keep
mail. So who comes back finds a statement of the last week."""
RETELL_AT_MOST_MS: Final = DAY_MS
MOST_FORMER_INBOXES: Final = 16
"""Each costs connections and reads. With more removals in 30 days the oldest is no longer read."""
FORMER_POLL_MS: Final = 600_000
"""How often a former inbox is read in the mesh. Nodes push nothing of it: its circuits would be missing elsewhere."""


def is_read(retired_at_ms: int, *, all_read_at_ms: int, now_ms: int) -> bool:
    """Return whether what we left then is still read: for 30 days, and afterwards until it was read once more.

    `all_read_at_ms` is when everything was read last. Who was away at the end of the 30 days still gets what was stored
    until then; nodes keep it for another 30 days at most.
    """
    end_ms = retired_at_ms + READ_MS
    return now_ms < end_ms or (all_read_at_ms < end_ms and now_ms < end_ms + STORED_TTL_MS)


def is_to_be_told(told_at_ms: int | None, *, is_confirmed: bool, is_outdated: bool, now_ms: int) -> bool:
    """Return whether a contact is told our access secret now.

    `is_confirmed`: it has used the secret since it was told. `is_outdated`: it wrote to another inbox after that.
    """
    if told_at_ms is None:
        return True
    if is_outdated:
        return now_ms >= told_at_ms + RETELL_AT_MOST_MS
    return not is_confirmed and now_ms >= told_at_ms + RETELL_MS
