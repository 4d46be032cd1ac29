"""runtime/sqlite: guards come back in their order after a restart."""

from functools import partial
from pathlib import Path

from restante.model.ids import NodeId
from restante.policy.circuits.guards import Guard, GuardState
from restante.runtime.sqlite.file.client_file import ClientFile
from restante.runtime.sqlite.guard_state import StoredGuards
from restante.testing.deterministic import SeededEntropy
from support.spec.clauses import clause


def node(number: int) -> NodeId:
    return NodeId(bytes([number]) * 32)


@clause("11.4")
async def test_guards_come_back_in_their_order(tmp_path: Path) -> None:
    first = GuardState(
        sample=(node(9), node(3), node(5)),
        guards=tuple(
            Guard(node_id=node(each), chosen_at_ms=each, kept_until_ms=each + 1, last_listed_ms=each + 2)
            for each in (5, 9, 3)
        ),
    )
    for state in (GuardState(), first, GuardState(sample=first.sample[:1], guards=first.guards[1:])):
        file = ClientFile.open(tmp_path / "client.db", entropy=SeededEntropy(1))
        await file.run(partial(StoredGuards(file.database).store, state))
        file.close()
        file = ClientFile.open(tmp_path / "client.db", entropy=SeededEntropy(1))
        assert await file.run(StoredGuards(file.database).load) == state
        file.close()
