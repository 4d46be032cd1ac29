"""What commands advise when no node of the mesh answers: nothing of theirs is tried again by itself."""

from pathlib import Path

import pytest

from restante.cli.client.home import hinting_unreached_mesh
from restante.cli.terminal import HINT
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from support.relay.node_processes import free_port, restante

STRANGER = "rst12r7a4wj3r2g0rr9uzmtwd6avvmtppz77r9e4thh3v05ywpm07swsvgr3g4"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("people") / "me"
    nowhere = f"{Identity(bytes(32)).node_key.hex()}@127.0.0.1:{free_port()}"
    restante("id", "new", str(home), "--mesh", nowhere, "--no-passphrase")
    return home


@pytest.mark.parametrize("command", ["mesh status", "mesh peers", "circuits", "contact add carol {stranger}"])
def test_the_advice_is_to_check_the_network(home: Path, command: str) -> None:
    refused = restante(*command.format(stranger=STRANGER).split(), status=1, RESTANTE_HOME=str(home))
    error, hint = refused.stderr.splitlines()
    assert error == "error E003: none of the known mesh nodes answers"
    assert hint == "  hint: Check the network, and whether nodes of the mesh run; then run the command again."


@pytest.mark.parametrize("code", [Code.NETWORK_UNREACHABLE, Code.CIRCUIT_BUILD_FAILED])
def test_a_dead_guard_or_hop_has_the_same_advice(code: Code) -> None:
    with pytest.raises(RestanteError) as raised, hinting_unreached_mesh():
        raise RestanteError("the guard can't be reached", code=code)
    assert raised.value.__notes__ == [
        f"{HINT}Check the network, and whether nodes of the mesh run; then run the command again."
    ]


def test_a_client_without_a_mesh_is_not_advised_to_check_an_address(tmp_path: Path) -> None:
    nowhere = f"{Identity(bytes(32)).node_key.hex()}@127.0.0.1:{free_port()}"
    restante("id", "new", str(tmp_path / "me"), "--relay", nowhere, "--no-passphrase")
    refused = restante("contact", "add", "carol", STRANGER, status=2, RESTANTE_HOME=str(tmp_path / "me"))
    assert refused.stderr.startswith("error E107: this client knows no mesh")
    assert "Check the address" not in refused.stderr
