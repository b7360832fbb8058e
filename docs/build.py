"""Builds the site: python docs/build.py [FOLDER]. FOLDER defaults to build/docs.

Zensical builds FOLDER/site from docs/pages and from files of the project such as CHANGELOG.md. A
warning, such as a broken link, is an error. A page that loads anything from another machine is an
error, too.
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
"""Pages that are copies of files outside docs/pages, by page."""

MOVED = {
    "concepts/promises": "concepts/guarantees",
    "concepts/queries": "concepts/query-strategies",
    "concepts/honest-figures": "concepts/accuracy-estimates",
    "concepts/blend": "concepts/ensemble",
    "figures/beside-others": "figures/comparison",
    "how-to/several-machines": "how-to/distributed-scoring",
    "how-to/worth-of-labels": "how-to/compare-strategies",
}
"""Redirects: present page by former page, both without suffix."""
LOADED = re.compile(
    r"<(?:script|img|iframe|link rel=\"?(?:stylesheet|preload|icon))[^>]*?https?://[^>]*>"
)


def gather(folder: Path) -> None:
    """Copy all pages and the settings into an empty folder."""
    pages = folder / "pages"
    shutil.copytree(HERE / "pages", pages)
    for name in ("zensical.toml", "inherited_descriptions.py"):
        shutil.copy(HERE / name, folder)
    for name, path in PROJECT.items():
        text = (ROOT / path).read_text().replace("](docs/pages/", "](../")
        (pages / name).write_text(text)


def foreign(site: Path) -> list[str]:
    """Return elements that load from other machines, each with its page's name in front."""
    return [
        f"{page.relative_to(site)}: {found}"
        for page in sorted(site.rglob("*.html"))
        for found in LOADED.findall(page.read_text())
    ]


def redirect(site: Path) -> None:
    """Write a page at each former address that redirects to the present one."""
    for old, new in MOVED.items():
        if not (site / f"{new}.html").is_file():
            sys.exit(f"MOVED leads from {old} to {new}, which is no page")
        target = f"../{new}.html"
        (site / f"{old}.html").write_text(
            f'<!doctype html><meta charset="utf-8"><title>Moved</title>'
            f'<link rel="canonical" href="{target}">'
            f'<meta http-equiv="refresh" content="0; url={target}">'
            f'<a href="{target}">{target}</a>\n'
        )


def main() -> None:
    """Build the site in the folder given on the command line."""
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "build" / "docs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    gather(folder)
    zensical = [str(Path(sys.executable).with_name("zensical")), "build", "--strict"]
    subprocess.run([*zensical, "-f", "zensical.toml"], cwd=folder, check=True)
    redirect(folder / "site")
    if found := foreign(folder / "site"):
        sys.exit("these are loaded from elsewhere:\n" + "\n".join(found))
    site = folder / "site"
    print(f"built {site / 'index.html'}; its search wants a server, such as")
    print(f"    {sys.executable} -m http.server --bind 127.0.0.1 --directory {site}")


if __name__ == "__main__":
    main()
