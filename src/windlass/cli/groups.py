"""Groups of commands: their names and help, without the commands themselves.

`windlass approvals` without a command prints this list; what a command needs is loaded when it is called.
"""

from __future__ import annotations

import click

from windlass.cli.lazy import LazyGroup


class _Sessions(LazyGroup):
    """The commands of `windlass sessions`."""

    table = {
        "list": ("windlass.cli.sessions.commands:list_", "List all sessions, the latest first."),
        "show": (
            "windlass.cli.sessions.commands:show",
            "Show what happened in a session: its turns, calls, decisions and results.",
        ),
        "resume": (
            "windlass.cli.run:resume",
            "Go on with a session that was killed, cancelled or parked; the same as run --resume ID.",
        ),
        "wake": (
            "windlass.cli.sessions.wake:wake",
            "Fire what is due, and go on with the parked sessions that were woken.",
        ),
        "export": (
            "windlass.cli.sessions.export:export",
            "Export a session: every journal entry as a line of JSON.",
        ),
        "prune": (
            "windlass.cli.sessions.commands:prune",
            "Delete sessions that were not used for some time.",
        ),
        "verify": (
            "windlass.cli.sessions.commands:verify",
            "Check that nothing of a session's record was changed: follow its chain of hashes.",
        ),
        "delete": (
            "windlass.cli.sessions.commands:delete",
            "Remove sessions and everything recorded of them.",
        ),
    }


@click.group(cls=_Sessions)
def sessions() -> None:
    """List, show, resume, export and remove sessions.

    An ID may be cut to as much of its beginning as tells it from all others.
    """


class _Triggers(LazyGroup):
    """The commands of `windlass triggers`."""

    table = {
        "list": (
            "windlass.cli.triggers.commands:list_",
            "List the triggers, and what parked sessions wait for.",
        ),
        "add": (
            "windlass.cli.triggers.commands:add",
            "Register a trigger: SPEC and ACTION are JSON.",
        ),
        "remove": ("windlass.cli.triggers.commands:remove", "Remove triggers."),
        "fire": (
            "windlass.cli.triggers.commands:fire",
            "Fire what is due now, as a worker process does all the time.",
        ),
    }


@click.group(cls=_Triggers)
def triggers() -> None:
    """List, add, remove and fire triggers."""


class _Daemon(LazyGroup):
    """The commands of `windlass daemon`."""

    table = {
        "start": (
            "windlass.cli.daemons.process:start",
            "Start a daemon, and stay until it is stopped.",
        ),
        "trigger": ("windlass.cli.daemons.commands:trigger", "Give a daemon an event."),
        "status": (
            "windlass.cli.daemons.commands:status",
            "Show what daemons do, and how many events wait.",
        ),
        "stop": (
            "windlass.cli.daemons.commands:stop",
            "Stop a daemon at the end of its turn; its events stay.",
        ),
        "resume": (
            "windlass.cli.daemons.process:resume",
            "Go on with a daemon that was stopped or killed.",
        ),
    }


@click.group(cls=_Daemon)
def daemon() -> None:
    """Start, trigger, show, stop and resume agents that wait for events.

    A daemon is known by its name, in every process that uses the same store.
    """


class _Approvals(LazyGroup):
    """The commands of `windlass approvals`."""

    table = {
        "list": ("windlass.cli.approvals:list_", "List what waits for an answer."),
        "show": (
            "windlass.cli.approvals:show",
            "Show one call that waits: its arguments whole, the rule that asks, and why.",
        ),
        "approve": (
            "windlass.cli.approvals:approve",
            "Approve calls: each may run as it is; with --for session, others on its targets too.",
        ),
        "deny": (
            "windlass.cli.approvals:deny",
            "Deny calls: they do not run, and the model is told; with --for session, never again.",
        ),
    }


@click.group(cls=_Approvals)
def approvals() -> None:
    """List, show, approve and deny calls that wait for approval.

    An ID may be cut to as much of its beginning as tells it from all others. An answer is kept with
    the session: `windlass sessions resume` goes on with it, now or tomorrow.
    """


class _Plan(LazyGroup):
    """The commands of `windlass plan`."""

    table = {
        "show": (
            "windlass.cli.plan:show",
            "Show the effects of a plan: each call, and the rows it would change if known.",
        ),
        "approve": (
            "windlass.cli.plan:approve",
            "Approve all effects of a plan, as they are shown.",
        ),
    }


@click.group(cls=_Plan)
def plan() -> None:
    """Show and approve what `windlass run --preview` has planned.

    One run may then do exactly this, once: `windlass run "…" --plan ID`.
    """


class _Audit(LazyGroup):
    """The commands of `windlass audit`."""

    table = {
        "verify": (
            "windlass.cli.audit:verify",
            "Check whether the record was changed, cut or restored; print one line per finding.",
        ),
        "query": (
            "windlass.cli.audit:query",
            "List every tool call that matches, the newest first.",
        ),
        "seal": (
            "windlass.cli.audit:seal",
            "Seal now all that has changed since its last seal, and anchor the seals.",
        ),
    }


@click.group(cls=_Audit)
def audit() -> None:
    """Query, verify and seal the record of what agents did.

    \b
      windlass audit query --caller ann --since 7d     every tool call of hers
      windlass audit verify --anchor seals.jsonl       was anything changed?
    """


class _Config(LazyGroup):
    """The commands of `windlass config`."""

    table = {
        "show": (
            "windlass.cli.config:show",
            "Show every effective setting and where it comes from; secrets are masked.",
        ),
        "check": (
            "windlass.cli.config:check",
            "Look for mistakes in PATH, or in everything that applies here.",
        ),
    }


@click.group(cls=_Config)
def config() -> None:
    """Show or check the settings that apply here."""


class _Mcp(LazyGroup):
    """The commands of `windlass mcp`."""

    table = {
        "list": (
            "windlass.cli.mcp.client:list_",
            "List the tools, resources and prompts of MCP servers.",
        ),
        "call": ("windlass.cli.mcp.client:call", "Call a tool of an MCP server."),
        "doctor": (
            "windlass.cli.mcp.client:doctor",
            "Start MCP servers and say what they speak, or why they fail; sign in to them.",
        ),
        "serve": (
            "windlass.cli.mcp.serve:serve",
            "Serve an application to MCP clients: a McpService, a Runtime, an Agent, or tools.",
        ),
    }


@click.group(cls=_Mcp)
def mcp() -> None:
    """Use MCP servers, and serve an application to MCP clients."""


class _Workflow(LazyGroup):
    """The commands of `windlass workflow`."""

    table = {
        "run": (
            "windlass.cli.workflows.commands:run",
            "Run a workflow of a program: a graph, or a function with @workflow.",
        ),
        "resume": (
            "windlass.cli.workflows.commands:resume",
            "Go on with a workflow that was killed or parked.",
        ),
        "draw": (
            "windlass.cli.workflows.commands:draw",
            "Draw a workflow: as text, Mermaid or HTML.",
        ),
    }


@click.group(cls=_Workflow)
def workflow() -> None:
    """Run, resume and draw the workflows of a program."""
