"""Explores all interleavings of the small mesh in `mesh_world`.

Properties: what is sent was stored at two nodes. If the write quorum was reached and at every moment since then a
living node held the message, then no bucket that such a node holds it in is final before the message was received. It
is received once, and a node that deleted it never holds it again.

Left out are only worlds that can break nothing: those in which nothing was promised, no living node held the message
for a moment, or it was received (unless the exploration follows received messages).
"""

from collections import deque
from dataclasses import dataclass, field

from restante.core.mailbox_poll import buckets
from support.model.mesh_world import Rules, World, actions


@dataclass
class Exploration:
    states: int = 0
    is_exhausted: bool = False
    finals: int = 0
    """States in which a bucket is final."""
    ended: int = 0
    """States in which a bucket has had its first read that counts."""
    broken: list[str] = field(default_factory=list)


def explore(
    rules: Rules, *, max_states: int, start: World | None = None, follows_received: bool = False
) -> Exploration:
    """Visit every state once, nearest first. Stop at the first broken one or after `max_states`."""
    found = Exploration()
    first = start or World()
    seen = {first}
    queue = deque([first])
    while queue:
        world = queue.popleft()
        found.states += 1
        found.finals += any(each.phase is buckets.Phase.FINAL for each in world.buckets)
        found.ended += any(each.phase is buckets.Phase.ENDED for each in world.buckets)
        broken = violation(world)
        if broken is not None:
            found.broken.append(broken)
            return found
        if found.states >= max_states:
            return found
        for after in actions(world, rules):
            if after not in seen and not is_settled(after, follows_received=follows_received):
                seen.add(after)
                queue.append(after)
    found.is_exhausted = True
    return found


def violation(world: World) -> str | None:
    if world.received > 1:
        return "received twice"
    if world.is_hollow:
        return "sent with fewer than two copies"
    if any(each.held & each.deleted for each in world.nodes):
        return "a node holds again what it deleted"
    if not world.is_sent or world.was_without or world.received:
        return None
    for bucket in world.buckets:
        if bucket.phase is buckets.Phase.FINAL and any(
            each.is_alive and bucket.number in each.held for each in world.nodes
        ):
            return "a bucket is final, and a living node holds unread mail in it"
    return None


def is_settled(world: World, *, follows_received: bool) -> bool:
    """Return whether nothing can break any more."""
    if world.was_without or (world.received == 1 and not follows_received):
        return True
    return world.store is not None and not world.is_sent and not world.puts
