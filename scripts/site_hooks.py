"""What mkdocs does beyond its configuration: the pages of the Python reference, and links out of docs/.

Nothing generated is written to docs/: the pages of the reference exist in the site alone.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
API = "reference/api"

# Page, title, and the packages whose public names stand on it.
TOPICS = (
    ("agents", "Agents and the loop", "agents engine"),
    ("attempts", "Typed answers in attempts", "attempts"),
    ("workers", "Workers and sub-agents", "workers"),
    ("chat", "Chat", "chat"),
    ("daemons", "Daemons", "daemons"),
    ("fleet", "Fleets", "fleet"),
    ("simulated-users", "Simulated users", "simulated_users"),
    ("workflows", "Workflows", "workflows"),
    ("triggers", "Suspending, waking and triggers", "conditions triggers"),
    ("tools", "Tools", "tools"),
    ("toolbox", "Toolbox: built-in tools", "toolbox"),
    ("mcp", "MCP", "mcp"),
    ("models", "Models", "models"),
    ("calls", "Single model calls and cost", "llm usage"),
    ("callers", "Callers: retry, fallback, cache, rate limit", "callers"),
    ("messages", "Messages and events", "messages events observe"),
    ("policies", "Policies: judges, compaction, skills, guardrails", "policies loop output"),
    ("access", "Permissions, approvals and roles", "access"),
    ("sessions", "Sessions", "sessions"),
    ("resources", "Resources", "resources"),
    ("generate", "Generate", "generate"),
    ("runtime", "Runtime, stores and secrets", "runtime store redaction config server"),
    ("audit", "Audit", "audit"),
    ("errors", "Errors", "errors"),
    ("testing", "Testing", "testing"),
)


def read_homes() -> dict[str, str]:
    """Read every public name with the full path of the module that defines it."""
    package, testing = import_module("windlass"), import_module("windlass.testing")
    homes = {
        name: f"windlass.{module}" for module, names in package._HOMES.items() for name in names
    }
    for name in testing.__all__:
        homes[name] = getattr(getattr(testing, name), "__module__", "windlass.testing")
    return homes


def sort_by_topic(homes: dict[str, str]) -> dict[str, list[str]]:
    """Sort the full paths of all public names to the pages of the reference."""
    pages = {package: slug for slug, _, packages in TOPICS for package in packages.split()}
    found: dict[str, list[str]] = defaultdict(list)
    for name, home in sorted(homes.items(), key=lambda item: item[0].lower()):
        package = home.split(".")[1]
        if package not in pages:
            raise LookupError(f"{home}.{name} is on no page: give {package!r} a place in TOPICS")
        found[pages[package]].append(f"{home}.{name}")
    return found


def write_page(slug: str, title: str, paths: list[str]) -> str:
    """Write the Markdown of one page of the reference."""
    source = "windlass.testing" if slug == "testing" else "windlass"
    lines = [f"# {title}", ""]
    if source == "windlass":
        lines += ["All names of this page are names of `windlass`: `import windlass as w`.", ""]
    else:
        lines += ["All names of this page are imported from `windlass.testing`.", ""]
    for path in paths:
        lines += [f"::: {path}", ""]
    return "\n".join(lines)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the generated pages into the navigation."""
    found = sort_by_topic(read_homes())
    pages: list[Any] = [{title: f"{API}/{slug}.md"} for slug, title, _ in TOPICS if found[slug]]
    for section in config.nav or []:
        for entries in section.values():
            for entry in entries if isinstance(entries, list) else []:
                if isinstance(entry, dict) and entry.get("Python") == API:
                    entry["Python"] = pages
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the reference."""
    found = sort_by_topic(read_homes())
    for slug, title, _ in TOPICS:
        if found[slug]:
            text = write_page(slug, title, found[slug])
            files.append(File.generated(config, f"{API}/{slug}.md", content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Turn a link to a file that is not part of the site into the path of that file."""
    here = Path("docs", page.file.src_uri).parent

    def replace(found: re.Match[str]) -> str:
        target = os.path.normpath(here / found[2])
        inside = Path(target).parts[:1] == ("docs",)
        if not found[2] or inside or not (ROOT / target).exists():
            return found[0]
        words = found[1]
        return words if target in words else f"{words} (`{target}` in the repository)"

    markdown = re.sub(r"\[([^\]]+)\]\(([^)#:\s]*)(?:#[^)]*)?\)", replace, markdown)
    return re.sub(r"^\|.*$", lambda row: _ESCAPED_BAR.sub(_as_html, row[0]), markdown, flags=re.M)


# Code in a table whose bars are escaped: GitHub shows them as bars, mkdocs with the backslash.
_ESCAPED_BAR = re.compile(r"`([^`]*\\\|[^`]*)`")


def _as_html(code: re.Match[str]) -> str:
    text = escape(code[1].replace("\\|", "|"), quote=False).replace("|", "&#124;")
    return f"<code>{text}</code>"
