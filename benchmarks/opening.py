"""Cost of opening dashboards of a pipeline, for this state of the project and a baseline.

`benchmarks.status --baseline FOLDER` calls this module. Each state runs a pipeline of its own,
shown by its own `streamboost serve`; the two states alternate. Measured are:

- from the command to the link: wall-clock and CPU time of `serve`;
- from the address to the display, in Chromium (Debian's) with an empty cache: the first text and
  the first figure, as medians of three visits to a pipeline that has ended;
- the cost of open dashboards of a pipeline that reads 500 records a second, as `status` measures
  it.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parents[1]
NAMES = (
    "command to link, s",
    "command to link, s of CPU",
    "first paint, ms",
    "first figure, ms",
    "serve, s of CPU a visit",
    "serve, % of a core for open dashboards",
    "pushed to each, B/s of JSON",
    "the same on the wire, B/s",
)
VISITS = 3
FIGURE = "() => /\\d/.test(document.querySelector('.tiles')?.textContent ?? '')"
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def cpu_of(pid):
    """Return the seconds of CPU time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def browser():
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("chromium-browser")
    args = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as driver:
        yield driver.chromium.launch(executable_path=found, args=args)


def opened(chromium, root, place):
    """Measure `NAMES` for a `serve` of the project in `root` on the pipeline in `place`."""
    module = "streamboost.pipelines.cli.__main__"
    command = [sys.executable, "-m", module, "serve", "p.toml", "--port=0"]
    environment = os.environ | {"PYTHONPATH": str(root)}
    start = time.perf_counter()
    serve = subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        link = serve.stdout.readline().split(": ", 1)[1].strip()
        began = time.perf_counter() - start, cpu_of(serve.pid)
        address = link.partition("/login")[0]
        first = chromium.new_context()
        first.request.post(link, headers={"Origin": address}, max_redirects=0)
        visits = [
            visited(chromium, address, first.storage_state(), serve.pid) for _ in range(VISITS)
        ]
        return [*began, *map(median, zip(*visits, strict=True))]
    finally:
        serve.kill()
        serve.communicate()


def visited(chromium, address, login, pid):
    """Return when the first text was seen, when a figure, and what that cost `serve`."""
    before = cpu_of(pid)
    context = chromium.new_context(storage_state=login)
    page = context.new_page()
    page.goto(address, wait_until="commit")
    page.wait_for_function(FIGURE, timeout=60_000)
    figure = page.evaluate("performance.now()")
    page.wait_for_function(PAINT)
    page.wait_for_load_state("networkidle")
    found = page.evaluate(PAINT), figure, cpu_of(pid) - before
    context.close()
    return found


def compared(folder, n_turns, n_clients, repeats):
    """Print the figures of `NAMES` for this state and for the baseline in `folder`, with ratios."""
    runs = {"this": [], "baseline": []}
    with browser() as chromium:
        for _ in range(repeats):
            for name, root in (("this", HERE), ("baseline", folder.resolve())):
                with tempfile.TemporaryDirectory() as place:
                    watched = in_a_process(root, Path(place), n_turns, n_clients)
                    runs[name].append(opened(chromium, root, Path(place)) + watched)
    show(runs)


def in_a_process(root, place, n_turns, n_clients):
    """Run `status` on open dashboards with the project in `root` and the pipeline in `place`."""
    words = [f"--turns={n_turns}", f"--clients={n_clients}", f"--one={place}"]
    command = [sys.executable, "-m", "benchmarks.status", *words]
    # The benchmarks of this state, not those of the project in `root`.
    (place / "benchmarks").symlink_to(HERE / "benchmarks")
    environment = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=place, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def show(runs):
    """Print the medians, and the ratio of this state to the baseline."""
    table = Table(title="Side by side, medians", title_justify="left")
    for heading in ("", *runs, "of baseline"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, *values in zip(
        NAMES, *(zip(*found, strict=True) for found in runs.values()), strict=True
    ):
        mine, other = map(median, values)
        table.add_row(name, f"{mine:,.2f}", f"{other:,.2f}", f"{mine / other:.2f}")
    Console().print(table)
