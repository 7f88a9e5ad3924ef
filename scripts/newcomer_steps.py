"""What a new user types, step by step, and the page where each step stands.

A line for the shell, a block to save and a block to paste are words of the page. What must be seen
is what the page shows below them, or `sees` where the page says it in a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

README = "README.md"
START = "docs/tutorials/getting-started.md"
SHOP = "docs/tutorials/shop.md"
CLI = "docs/reference/cli.md"
SETTINGS = "docs/reference/configuration.md"
TESTING = "docs/guides/testing.md"
HOW = "docs/concepts/how-it-works.md"

How = Literal["shell", "save", "prompt", "paste", "leave"]


@dataclass(frozen=True)
class Step:
    """One thing that is typed."""

    page: str
    how: How
    typed: str  # a line, or the first line of a block
    sees: str = ""  # must be printed; without it what the page shows
    file: str = ""  # the name under which a block is saved
    fails: bool = False  # the command ends with an error, as the page says
    setup: bool = False  # makes the clone: left out of the short form


def shell(
    page: str, line: str, sees: str = "", *, fails: bool = False, setup: bool = False
) -> Step:
    """Type a line into the shell."""
    return Step(page, "shell", line, sees, fails=fails, setup=setup)


def save(page: str, first: str, file: str) -> Step:
    """Save the block that begins with a line."""
    return Step(page, "save", first, file=file)


def open_prompt(page: str) -> Step:
    """Start a Python prompt."""
    return Step(page, "prompt", "python -m asyncio")


def paste(page: str, first: str, sees: str = "") -> Step:
    """Paste the block that begins with a line into the prompt."""
    return Step(page, "paste", first, sees)


def leave(page: str) -> Step:
    """Leave the Python prompt."""
    return Step(page, "leave", "exit()")


INSTALL = (
    shell(START, "git clone <address> windlass", "windlass", setup=True),
    shell(START, "cd windlass", setup=True),
    shell(README, "make demo", "The customer was refunded exactly once", setup=True),
    save(README, "import windlass as w", "first.py"),
    shell(README, ".venv/bin/python first.py", "19 + 23 is 42. done 2", setup=True),
    shell(START, "source .venv/bin/activate", setup=True),
    shell(START, "windlass --version"),
)

FIRST_AGENT = (
    shell(START, "mkdir ../shop"),
    shell(START, "cd ../shop"),
    save(START, "# shop.py", "shop.py"),
    open_prompt(START),
    paste(START, "import windlass as w\nfrom shop import price"),
    paste(START, "for record in out.tool_calls:"),
    paste(START, "print(out.status, out.turns, out.usage.total_tokens, out.cost_usd)"),
    paste(START, "try:\n    w.Agent(model, max_turn=3)"),
    paste(START, 'model = scripted(then=call("price", item="cup"))'),
    paste(START, "from dataclasses import dataclass"),
    paste(START, "async with w.Agent(scripted("),
)

SESSION = (
    paste(START, 'agent = w.Agent(scripted("Noted, Ann."), store="sqlite:///shop.db")'),
    leave(START),
    open_prompt(START),
    paste(START, "import windlass as w\nfrom windlass.testing import scripted"),
    leave(START),
    shell(START, "windlass sessions list --store shop.db"),
    shell(START, "windlass sessions show ann --store shop.db"),
    shell(START, "windlass trace ann --store shop.db --width 80"),
    shell(START, "windlass trace ann --store shop.db --html ann.html"),
    shell(START, "windlass sessions verify ann --store shop.db"),
    shell(START, 'windlass run "How much is a kettle?" --provider mock --tools shop:price --quiet'),
)

APPROVAL = (
    save(START, "# refund.py", "refund.py"),
    shell(START, "python refund.py"),
    shell(START, "windlass approvals list --store shop.db"),
    shell(START, "windlass approvals approve --session refund-1 --store shop.db"),
    save(START, "# resume.py", "resume.py"),
    shell(START, "python resume.py"),
    shell(START, "windlass sessions show refund-1 --store shop.db"),
)

REAL_MODEL = (
    shell(
        START,
        'windlass run "How much is a kettle?" --model anthropic:claude-sonnet-4-5 --tools shop:price',
        "anthropic needs an API key: set ANTHROPIC_API_KEY",
        fails=True,
    ),
)

COMMANDS = (
    shell(CLI, "windlass --help", "Commands"),
    shell(CLI, "windlass demo"),
    shell(CLI, "windlass run - --provider mock --quiet < shop.py"),
    shell(CLI, "windlass lint --registry shop:price"),
    shell(CLI, "windlass sessions prune --older-than 30d --dry-run"),
    shell(CLI, "windlass models list --provider anthropic", "ANTHROPIC_API_KEY"),
    shell(CLI, "windlass config show", "store.url"),
    save(SETTINGS, "# windlass.toml", "windlass.toml"),
    shell(SETTINGS, "windlass trust --yes"),
    shell(SETTINGS, "windlass config show"),
    shell(SETTINGS, "windlass config check", "right "),
)

TESTS = (
    open_prompt(SHOP),
    paste(HOW, "import windlass as w"),
    paste(TESTING, "import windlass as w"),
    paste(TESTING, 'w.llm_mock(\n    text="Let me add."'),
    leave(START),
)

ORDERS = (
    shell(SHOP, "mkdir ../orders"),
    shell(SHOP, "cd ../orders"),
    save(SHOP, "# windlass.toml", "windlass.toml"),
    shell(SHOP, "windlass trust --yes"),
    save(SHOP, "# shop.py", "shop.py"),
    open_prompt(SHOP),
    paste(SHOP, "from shop import *"),
    paste(SHOP, "from windlass.testing import call, scripted"),
    paste(SHOP, "async with shop() as scope:\n    model = scripted("),
    paste(SHOP, "async with shop() as scope:\n    other = w.Caller("),
    paste(SHOP, 'RULES = {\n    "rules"'),
    # The prompt stays open: another process answers while it waits.
    shell(SHOP, "windlass approvals list"),
    shell(SHOP, "windlass approvals approve --session cancel-cups --by bea"),
    paste(SHOP, "async with shop() as scope:\n    out = await assistant("),
    paste(SHOP, '@w.tool(annotations={"reads_untrusted": True}'),
    paste(SHOP, "async with shop() as scope:\n    for row in"),
    leave(START),
    shell(SHOP, "windlass audit query --session cancel-cups"),
    shell(SHOP, "windlass audit verify"),
)

STEPS = (
    *INSTALL,
    *FIRST_AGENT,
    *SESSION,
    *APPROVAL,
    *REAL_MODEL,
    *COMMANDS,
    *TESTS,
    *ORDERS,
)
# In CI, in an environment that is set up already.
SHORT = (*FIRST_AGENT, *SESSION[:5], *APPROVAL)
