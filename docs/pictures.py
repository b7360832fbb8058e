"""Retakes the screenshots of the documentation: python docs/pictures.py

The screenshots show `streamboost demo --serve` in Chromium, after enough evaluated predictions.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

FOLDER = Path(__file__).parent / "pages" / "images"
SIZE = {"width": 1280, "height": 860}
SECONDS = 150
"""Running time of the demo before the screenshot of its dashboard."""


def link_of(demo: subprocess.Popen[str]) -> str:
    """Return the login link that the demo prints."""
    assert demo.stdout is not None
    for line in demo.stdout:
        if found := re.search(r"http://\S+/login\S+", line):
            return found[0]
    raise SystemExit("the demo ended without a link")


def take(page: Page, link: str) -> None:
    """Log in, and take screenshots of the dashboard and of the labelling page."""
    page.goto(link)
    page.get_by_role("button").first.click()
    page.wait_for_timeout(1_000 * SECONDS)
    page.screenshot(path=FOLDER / "dashboard.png")
    page.goto(link.split("/login")[0] + "/label")
    page.wait_for_timeout(3_000)
    page.screenshot(path=FOLDER / "label.png")


def main() -> None:
    """Run the demo and take its screenshots."""
    FOLDER.mkdir(exist_ok=True)
    command = [str(Path(sys.executable).with_name("streamboost")), "demo", "--serve"]
    with tempfile.TemporaryDirectory() as state, sync_playwright() as playwright:
        demo = subprocess.Popen(
            [*command, "--state", f"{state}/demo"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        try:
            chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"))
            take(chromium.new_page(viewport=SIZE), link_of(demo))
        finally:
            demo.terminate()
            demo.wait()


if __name__ == "__main__":
    main()
