"""Build the site: python docs/build.py [FOLDER], which is build/docs unless told otherwise.

Zensical makes FOLDER/site of docs/pages and of the project's own files. A warning, such as a link
to nowhere, is an error, and so is a page that would load anything from another machine.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HERE = ROOT / "docs"
PROJECT = {
    "project/changes.md": "CHANGELOG.md",
    "project/contributing.md": "CONTRIBUTING.md",
    "project/security.md": "SECURITY.md",
    "figures/papers.md": "benchmarks/paper_tables/RESULTS.md",
}
"""Pages that are files of the project's own."""
LOADED = re.compile(
    r"<(?:script|img|iframe|link rel=\"?(?:stylesheet|preload|icon))[^>]*?https?://[^>]*>"
)


def gather(folder: Path) -> None:
    """Write all the pages into a folder that is empty."""
    pages = folder / "pages"
    shutil.copytree(HERE / "pages", pages)
    for name in ("zensical.toml", "inherited_descriptions.py"):
        shutil.copy(HERE / name, folder)
    for name, path in PROJECT.items():
        (pages / name).write_text((ROOT / path).read_text())


def foreign(site: Path) -> list[str]:
    """Return what pages would load from other machines, with the page's name before it."""
    return [
        f"{page.relative_to(site)}: {found}"
        for page in sorted(site.rglob("*.html"))
        for found in LOADED.findall(page.read_text())
    ]


def main() -> None:
    """Build the site in the folder that is named."""
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "build" / "docs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    gather(folder)
    zensical = [str(Path(sys.executable).with_name("zensical")), "build", "--strict"]
    subprocess.run([*zensical, "-f", "zensical.toml"], cwd=folder, check=True)
    if found := foreign(folder / "site"):
        sys.exit("these are loaded from elsewhere:\n" + "\n".join(found))
    site = folder / "site"
    print(f"built {site / 'index.html'}; its search wants a server, such as")
    print(f"    {sys.executable} -m http.server --bind 127.0.0.1 --directory {site}")


if __name__ == "__main__":
    main()
