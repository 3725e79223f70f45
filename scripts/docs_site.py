"""Builds the site of the documentation: `docs_site.py [FOLDER]`, else build/site. A dead link is an error.

Pages lie in the site as they lie in the repository, so that one link holds in both. What a page links to comes with it.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BEGIN = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
_LINK = re.compile(r"\]\(([^)#:\s]+)")
_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def linked_pages(root: Path) -> set[Path]:
    """The documents, and all files they link to, relative to the root; raises FileNotFoundError for one that is not."""
    todo = [*map(Path, _BEGIN), *(path.relative_to(root) for path in sorted((root / "docs").rglob("*.md")))]
    found: set[Path] = set()
    while todo:
        page = todo.pop()
        if page in found:
            continue
        found.add(page)
        if page.suffix != ".md":
            continue
        for link in _LINK.findall(_CODE.sub("", (root / page).read_text("utf-8"))):
            target = (root / page.parent / link).resolve()
            if not target.exists():
                raise FileNotFoundError(f"{page} links to {link}, which is not there")
            todo += [target.relative_to(root)] if target.is_file() else []
    return found


def build_site(folder: Path, root: Path = ROOT) -> Path:
    """Lay out the pages below a folder and build them; the folder of the site. Raises SystemExit with what is wrong."""
    from mkdocs.commands.build import build as mkdocs_build
    from mkdocs.config import load_config

    laid, html = folder / "pages", folder / "html"
    shutil.rmtree(laid, ignore_errors=True)
    for page in sorted(linked_pages(root)):
        copy = laid / page
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / page, copy)
    mkdocs_build(load_config(str(root / "mkdocs.yml"), docs_dir=str(laid), site_dir=str(html), strict=True))
    return html


if __name__ == "__main__":
    made = build_site(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site")
    print(f"{made / 'index.html'}   (with its search: python -m http.server -d {made})")
