"""The flags of the command line that give an option of an agent or of a run.

Written by `scripts/make_options.py` from the option groups. It is data alone, so that `--help` is quick.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple


class CommandFlag(NamedTuple):
    """A flag that gives an option, or one key of an option that is a struct."""

    option: str
    names: tuple[str, ...]
    words: str
    type: Literal["text", "int", "float", "choice", "switch"] = "text"
    metavar: str | None = None
    key: str | None = None
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    value: str | bool | None = None
    repeats: bool = False
    begins: bool = False
    default: str | None = None


FLAGS: Final[tuple[CommandFlag, ...]] = (
    CommandFlag(
        "model",
        ("--model", "-m"),
        "The model, as `anthropic:claude-sonnet-4-5`. `windlass models` lists some.",
        metavar="PROVIDER:NAME",
    ),
    CommandFlag(
        "provider",
        ("--provider", "-p"),
        "The provider that serves the model. Without --model: its default model. `mock` needs no key.",
        metavar="NAME",
    ),
    CommandFlag(
        "tools",
        ("--tools", "-t"),
        "The tools that the model may call. Modules of this folder count, too. May be repeated.",
        metavar="MODULE:FUNCTION",
        repeats=True,
    ),
    CommandFlag(
        "max_turns",
        ("--max-turns",),
        "The most model calls of a run.",
        metavar="N",
        type="int",
        low=1,
    ),
    CommandFlag(
        "token_budget",
        ("--max-tokens-total",),
        "The most tokens of a run, input and output together.",
        metavar="N",
        type="int",
        low=1,
    ),
    CommandFlag(
        "budget",
        ("--max-cost",),
        "Dollars that a run may cost.",
        metavar="USD",
        key="usd",
        type="float",
        low=0,
    ),
    CommandFlag(
        "budget",
        ("--timeout",),
        "Seconds that a run may take.",
        metavar="SECONDS",
        key="seconds",
        type="float",
        low=0,
    ),
    CommandFlag(
        "session_id",
        ("--session",),
        "The session that the run starts or continues.",
        metavar="ID",
        begins=True,
    ),
    CommandFlag(
        "store",
        ("--store",),
        "Where the session is kept. Default: .windlass/sessions.db of the project.",
        metavar="URL|FILE",
    ),
    CommandFlag(
        "take_over",
        ("--take-over",),
        "Take the session from another process that is working on it.",
        type="switch",
        value=True,
    ),
    CommandFlag(
        "on_pending",
        ("--on-pending",),
        "What happens to calls that a parked session waits for. keep: take no task. discard: go on without the calls that wait.",
        type="choice",
        choices=("keep", "discard"),
        default="keep",
        begins=True,
    ),
    CommandFlag(
        "dry_run",
        ("--preview",),
        "Only look: effects go into a plan (`windlass plan show`) and do not happen.",
        type="switch",
        value="plan",
        begins=True,
    ),
    CommandFlag(
        "mcp_servers",
        ("--mcp",),
        "MCP servers: an mcp.json as editors write it. May be repeated.",
        metavar="FILE",
        repeats=True,
    ),
    CommandFlag(
        "plan",
        ("--plan",),
        "The approved plan that the run carries out. Anything else parks the run.",
        metavar="ID",
        begins=True,
    ),
    CommandFlag(
        "workspace",
        ("--workspace",),
        "The folder of built-in tools, path rules and approvals.",
        metavar="FOLDER",
    ),
    CommandFlag(
        "mounts",
        ("--mount",),
        "Further folders that tools may read (`read`), or change as well (`extend`). The mode is read or extend. May be repeated.",
        metavar="FOLDER[:MODE]",
        repeats=True,
    ),
    CommandFlag(
        "sandbox",
        ("--sandbox",),
        "What holds the commands that tools run: workspace, isolated or none.",
        metavar="LEVEL",
    ),
    CommandFlag(
        "tool_preset",
        ("--tools-preset",),
        "Built-in tools beside `tools`: to look at files, to change them, or to run commands as well.",
        type="choice",
        choices=("readonly", "readwrite", "full"),
    ),
)
