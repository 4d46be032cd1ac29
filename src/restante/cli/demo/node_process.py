"""A node process of the demo: `python -m restante.cli.demo.node_process node run DIR`.

It is `restante node run` with two additions. It ends when the demo does, even if the demo is killed. While the file
`hides-mail` lies in DIR, it stores and signs as always, and lists no mail: the demo's lying node.
"""

import os
import sys
import threading
from pathlib import Path
from typing import Final

from restante.cli.main import main
from restante.model.ids import InboxKey
from restante.runtime.sqlite.mesh.store import ListedBlob, SqliteMeshStore

HIDES_MAIL: Final = "hides-mail"
COMMAND: Final = (sys.executable, "-m", __name__ if __name__ != "__main__" else "restante.cli.demo.node_process")


def _end_with_the_demo() -> None:
    """Wait until standard input is closed, which happens even if the parent is killed."""
    sys.stdin.buffer.read()
    os._exit(1)


def _hide_while(switch: Path) -> None:
    honest = SqliteMeshStore.listed

    def listed(self: SqliteMeshStore, key: InboxKey, *, after: int, now_ms: int) -> list[ListedBlob]:
        return [] if switch.exists() else honest(self, key, after=after, now_ms=now_ms)

    SqliteMeshStore.listed = listed  # type: ignore[method-assign]  # the lie


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_demo, daemon=True).start()
    _hide_while(Path(sys.argv[-1]) / HIDES_MAIL)
    main()
