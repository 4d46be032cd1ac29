"""Each fuzz target runs for a few seconds here and for minutes in `make fuzz`."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.spec.clauses import clause

HERE = Path(__file__).parent
TARGETS = sorted(path.name for path in HERE.glob("*.py") if not path.name.startswith("test_"))
SECONDS = 5


@clause("7.12")
@pytest.mark.parametrize("target", TARGETS)
def test_random_bytes_guided_by_coverage_find_nothing(target: str, tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="atheris has no build for this Python; the Hypothesis tests still run")
    command = [sys.executable, str(HERE / target), f"-max_total_time={SECONDS}", "-max_len=2048", "-seed=7"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "Done" in ended.stderr
