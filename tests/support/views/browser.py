"""Chromium without a window, to measure pages as a reader's browser lays them out."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.system.wait_until import LIMIT_S

CANDIDATES = ("chromium", "chromium-browser", "google-chrome")
DARK = "--blink-settings=preferredColorScheme=0"
_MEASURE = """
const inner = document.querySelector('iframe').contentWindow, page = inner.document;
const colour = of => inner.getComputedStyle(of).color, body = inner.getComputedStyle(page.body);
const wide = [...page.querySelectorAll('body *')].filter(each => {
  const box = each.getBoundingClientRect();
  return box.width > 0 && !each.closest('thead, svg') && box.right > inner.innerWidth + 1;
});
document.title = JSON.stringify({
  overflow: page.documentElement.scrollWidth - inner.innerWidth,
  beyond: wide.slice(0, 5).map(each => each.outerHTML.slice(0, 120)),
  ink: body.color, paper: body.backgroundColor,
  colours: [...page.querySelectorAll('p, small, em, caption, td, summary')].map(colour),
  plots: page.querySelectorAll('svg').length,
  scripts: page.scripts.length,
});
"""


def find_browser() -> str:
    """Return the browser's command, or skip the test."""
    found = next(filter(None, map(shutil.which, CANDIDATES)), None)
    if found is None:
        pytest.skip("no Chromium is installed")
    return found


def measured(page: str, directory: Path, *, width: int, is_dark: bool = False) -> dict[str, Any]:
    """Open the page in a frame of this width and return what our own script measures around it."""
    outer = directory / f"frame-{width}-{is_dark}.html"
    frame = f'<iframe style="border:0;width:{width}px;height:800px" srcdoc="{html.escape(page)}"></iframe>'
    outer.write_text(f"<!doctype html><body>{frame}<script>onload=()=>{{{_MEASURE}}}</script>", "utf-8")
    done = subprocess.run(
        [
            find_browser(),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={directory / 'profile'}",
            *([DARK] if is_dark else []),
            "--window-size=1600,1000",
            "--dump-dom",
            outer.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    [title] = re.findall(r"<title>(.*?)</title>", done.stdout.partition("<iframe")[0])
    result: dict[str, Any] = json.loads(html.unescape(title))
    return result


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours `rgb(r, g, b)` by WCAG 2."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
