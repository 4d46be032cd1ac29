"""The example unit for systemd fits the node it starts."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from restante.cli.error_advice import EXIT_BAD_INPUT
from restante.node.daemon import GRACE_S
from restante.policy.capacity import OutboxLimits

CONTRIB = Path(__file__).parents[2] / "contrib"
UNIT = CONTRIB / "restante-node.service"
CLIENT_UNIT = CONTRIB / "restante-client.service"


class _UnitParser(configparser.ConfigParser):
    """systemd tells capitals from small letters."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def service(unit: Path = UNIT) -> dict[str, str]:
    parser = _UnitParser(strict=False, delimiters=("=",), interpolation=None)
    parser.read(unit, encoding="utf-8")
    return dict(parser["Service"])


def test_it_waits_longer_than_a_node_needs_to_stop_and_does_not_repeat_bad_input() -> None:
    told = service()
    assert told["ExecStart"].split()[1:3] == ["node", "run"]
    assert told["ExecStart"].endswith(f"/var/lib/{told['StateDirectory']}")
    assert float(told["TimeoutStopSec"]) > GRACE_S
    assert told["RestartPreventExitStatus"] == str(EXIT_BAD_INPUT)
    assert (told["Type"], told["KillSignal"]) == ("notify", "SIGTERM")


def test_it_gives_the_node_no_more_than_it_needs() -> None:
    told = service()
    for key in ("NoNewPrivileges", "PrivateDevices", "PrivateTmp", "ProtectHome", "MemoryDenyWriteExecute"):
        assert told[key] == "yes"
    assert (told["ProtectSystem"], told["CapabilityBoundingSet"], told["UMask"]) == ("strict", "", "0077")
    assert "root" not in (told["User"], told["Group"])


def test_the_unit_of_a_client_runs_it_and_does_not_repeat_bad_input() -> None:
    told = service(CLIENT_UNIT)
    assert told["ExecStart"].split()[1:3] == ["run", "--home"]
    assert float(told["TimeoutStopSec"]) > OutboxLimits().drain_budget_ms / 1_000
    assert told["RestartPreventExitStatus"] == str(EXIT_BAD_INPUT)
    assert (told["Type"], told["KillSignal"], told["UMask"]) == ("notify", "SIGTERM", "0077")


@pytest.mark.parametrize("unit", [UNIT, CLIENT_UNIT])
def test_systemd_understands_every_line(tmp_path: Path, unit: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / unit.name
    command = service(unit)["ExecStart"].split()[0]
    copy.write_text(unit.read_text("utf-8").replace(command, shutil.which("true") or "/bin/true"), "utf-8")
    done = subprocess.run([analyze, "verify", str(copy)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, [line for line in done.stderr.splitlines() if unit.name in line]) == (0, [])
