"""What the partitions alone cost, whatever sender, nodes and recipient do: a bound on how fast any rules could be.

It knows the plan of the partitions and of the messages, and nothing that a run did. Links and crashes cost nothing.
"""

from collections.abc import Iterable


def cut_off_ms(accepted_at_ms: int, *, sides: tuple[int, int], partitions: Iterable[tuple[int, int]]) -> int:
    """Return how long after its acceptance a message can't yet have reached its recipient.

    `sides` are the halves of sender and recipient, `partitions` the times in which nothing passes between the halves.
    """
    sender, recipient = sides
    if sender == recipient:
        return 0
    return max(
        (end_ms - accepted_at_ms for start_ms, end_ms in partitions if start_ms <= accepted_at_ms < end_ms), default=0
    )
