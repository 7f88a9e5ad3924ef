"""`windlass lint`: what to mend before it fails, in sources, settings, registries and histories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from windlass.cli.lint_code import DEPRECATED, RULE, Finding, read_source, unknown_model
from windlass.cli.main import debug_option
from windlass.cli.options import json_option
from windlass.files import LARGEST_EXPORT, read_regular
from windlass.json_types import JsonObject

if TYPE_CHECKING:
    from windlass.models.base import Request
    from windlass.models.lint_history import Verdict

_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages", "build", "dist"})


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]…")
@click.option(
    "--registry",
    metavar="MODULE:NAME",
    multiple=True,
    help="A registry or list of tools to count. May be repeated.",
)
@click.option("--session", metavar="ID", help="Would providers take the history of this session?")
@click.option(
    "--transcript", metavar="FILE", help="The same for an exported transcript or journal."
)
@click.option(
    "--provider",
    "-p",
    metavar="NAME[:MODEL]",
    multiple=True,
    help="For these providers; default: whose key is set, for a history all.",
)
@click.option("--store", metavar="URL|FILE", help="Where the session is kept.")
@json_option
@debug_option
def lint(
    paths: tuple[str, ...],
    registry: tuple[str, ...],
    session: str | None,
    transcript: str | None,
    provider: tuple[str, ...],
    store: str | None,
    as_json: bool,
) -> None:
    """Look for what to mend: deprecated options, unknown models, wrong settings, too many tools.

    PATH is a file or a folder, by default this one. With --session or --transcript it says instead,
    provider by provider, whether a saved history would be taken. Exit code 1 when there is anything
    to mend.

    \b
      windlass lint src --registry shop.tools:registry
      windlass lint --session refunds --provider gemini
    """
    from windlass.errors import ConfigError

    ctx = click.get_current_context()
    ctx.call_on_close(_with_what_is_known_here())
    if session is not None or transcript is not None:
        if session is not None and transcript is not None:
            raise ConfigError("--session and --transcript are two histories: give one of them")
        if paths or registry:
            raise ConfigError("a history is looked at alone: leave paths and --registry out")
        request = (
            _read_session(session, store)
            if session is not None
            else _read_history_file(str(transcript))
        )
        ctx.exit(_tell_verdicts(list(verdicts(request, provider)), as_json))
    ctx.exit(_tell(_findings(paths, registry, provider), as_json))


def _with_what_is_known_here() -> Callable[[], None]:
    """Aliases and providers of the project count; where its tables are wrong, those we ship with.

    What takes it back is returned.
    """
    from windlass.cli.config import sections
    from windlass.errors import ConfigError
    from windlass.models.registry.defaults import read_shipped_tables
    from windlass.models.registry.registry import ModelRegistry, build_registry
    from windlass.models.registry.scope import registry_source

    try:
        book = build_registry(sections().load())
    except ConfigError:
        book = ModelRegistry([read_shipped_tables()])
    before = registry_source.set(lambda: book)
    return lambda: registry_source.reset(before)


def _tell(found: list[Finding], as_json: bool) -> int:
    from windlass.cli.console import out
    from windlass.cli.text import clean, count

    paper = out()
    if as_json:
        paper.json({"findings": [finding._asdict() for finding in found]})
        return 1 if found else 0
    for finding in found:
        fix = f" ({finding.fix})" if finding.fix else ""
        paper.line(
            (clean(finding.where), "bold"),
            f": {clean(finding.message)}{clean(fix)} ",
            (f"[{finding.rule}]", "dim"),
        )
    paper.line(count(len(found), "thing to mend", "things to mend") if found else "nothing to mend")
    return 1 if found else 0


# --------------------------------------------------------------------------- sources and settings


def _findings(
    paths: Sequence[str], registries: Sequence[str], providers: Sequence[str]
) -> list[Finding]:
    from windlass.config.loader import FILE

    found: list[Finding] = []
    deferred: list[str] = []
    searches = False
    settings: list[Path] = []
    for path in _files(paths or (".",), found):
        if path.name == FILE:
            settings.append(path)
            continue
        source = read_source(path)
        found += source.findings
        deferred += source.deferred
        searches = searches or source.searches
    found += _settings(settings, everything=not paths)
    found += _registries(registries, providers)
    if deferred and not searches:
        found += [
            Finding(
                "deferred_tools",
                where,
                "a deferred tool, and no tool_search finds it",
                "give tool_search=True to the run",
            )
            for where in deferred
        ]
    return sorted(found, key=_place)


def _place(finding: Finding) -> tuple[str, int, str]:
    path, _, line = finding.where.rpartition(":")
    return (path, int(line), finding.message) if line.isdigit() else (finding.where, 0, "")


def _files(paths: Iterable[str], found: list[Finding]) -> Iterator[Path]:
    from windlass.config.loader import FILE

    for name in paths:
        path = Path(name)
        if path.is_file():
            yield path
        elif path.is_dir():
            for folder, folders, files in os.walk(path):
                folders[:] = sorted(f for f in folders if f not in _SKIPPED and f[0] != ".")
                for file in sorted(files):
                    if file.endswith(".py") or file == FILE:
                        yield Path(folder, file)
        else:
            found.append(Finding("unreadable", name, "there is no such file or folder"))


def _settings(files: Sequence[Path], *, everything: bool) -> Iterator[Finding]:
    from windlass.cli.config import sections
    from windlass.errors import ConfigError
    from windlass.models.registry.registry import build_registry

    loader = sections()
    told: set[str] = set()
    for file in files:
        told.update(loader.check(str(file)))
        yield from _old_keys(file)
    if everything:
        try:
            build_registry(loader.load())  # a table may be wrong only together with others
        except ConfigError as error:
            here = {os.path.abspath(str(file)): str(file) for file in files}
            told.update(_nearer(line, here) for line in str(error).splitlines())
    for problem in sorted(told):
        where, _, message = problem.partition(": ")
        yield Finding("config", where, message or problem)


def _nearer(problem: str, here: dict[str, str]) -> str:
    """The same file under the name it was found by, so that nothing is told twice."""
    for whole, short in here.items():
        if problem.startswith(whole):
            return short + problem.removeprefix(whole)
    return problem


def _old_keys(file: Path) -> Iterator[Finding]:
    from windlass.config.lines import Lines
    from windlass.config.sources import parse

    try:
        text = read_regular(file).decode("utf-8-sig")
        data, problem = parse(text, str(file))
    except (OSError, ValueError):
        return  # the loader says so
    if problem:
        return
    lines = Lines(text)
    for path, value in _leaves(data):
        where = f"{file}{lines.at(path)}"
        if path[-1] in DEPRECATED:
            yield Finding(RULE, where, f"{path[-1]} is deprecated", f"use {DEPRECATED[path[-1]]}")
        elif path[-1] == "persistent":
            yield Finding(RULE, where, "persistent is now loop_until_done", "write loop_until_done")
        elif path[-1] in ("model", "default_model") and isinstance(value, str):
            if problem := unknown_model(value, None):
                yield Finding("unknown_model", where, problem)


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for key, inner in cast("JsonObject", value).items():
            yield from _leaves(inner, (*path, key))
    elif path:
        yield path, value


# --------------------------------------------------------------------------- registries


def _registries(paths: Sequence[str], providers: Sequence[str]) -> Iterator[Finding]:
    from windlass.cli.options import load_tools
    from windlass.errors import ConfigError

    if not paths:
        return
    caps = list(_caps(providers))
    for path in paths:
        try:
            tools = load_tools([path], option="--registry")
        except ConfigError as error:
            yield Finding("registry", path, str(error).removeprefix(f"--registry {path}: "))
            continue
        over = [cap for cap in caps if cap[0] < len(tools)]
        smallest = min(over, key=lambda cap: cap[0], default=None)
        if smallest is not None:
            yield Finding(
                "max_tools",
                path,
                f"{len(tools)} tools, and {smallest[1]} takes {smallest[0]} at most",
                "select fewer with tool_select, or defer some: defer_loading=True and tool_search",
            )


def _caps(providers: Sequence[str]) -> Iterator[tuple[int, str]]:
    """What each active provider takes at most, with the model that says so."""
    from windlass.models.registry import prices
    from windlass.models.registry.providers import DEFAULT
    from windlass.models.registry.registry import capabilities_of
    from windlass.models.registry.scope import ENDPOINTS

    keyed = [
        name
        for name, endpoint in ENDPOINTS.items()
        if any(os.environ.get(variable) for variable in endpoint.key_env)
    ]
    for given in providers or keyed or [DEFAULT]:
        provider, _, model = given.partition(":")
        known_provider(provider)
        default = ENDPOINTS[provider].default_model if provider in ENDPOINTS else None
        models = [model] if model else [info.name for info in prices.models().get(provider, ())]
        for name in models or [default or ""]:
            most = capabilities_of(provider, name).max_tools
            if most is not None:
                yield most, f"{provider}:{name}"


def known_provider(name: str) -> None:
    """Refuse a provider that nobody knows."""
    from windlass.errors import ConfigError, nearest
    from windlass.models.registry.scope import ENDPOINTS

    if name not in ENDPOINTS:
        raise ConfigError(f"provider {name!r} is not known{nearest(name, ENDPOINTS)}")


# --------------------------------------------------------------------------- histories


def verdicts(request: Request, providers: Sequence[str]) -> Iterator[Verdict]:
    """What each provider would say to a history."""
    import msgspec

    from windlass.models.lint_history import judge
    from windlass.models.registry import prices
    from windlass.models.registry.providers import resolve
    from windlass.models.registry.scope import ENDPOINTS
    from windlass.models.wires.base import HttpModel

    for given in providers or ENDPOINTS:
        provider, _, name = given.partition(":")
        known_provider(provider)
        endpoint = ENDPOINTS[provider]
        listed = prices.models().get(provider)
        name = name or endpoint.default_model or (listed[0].name if listed else "any-model")
        model = resolve(name, provider, api_key="none", environ=_PLACES)
        if isinstance(model, HttpModel):
            yield msgspec.structs.replace(judge(model, request), provider=provider)


# what some providers want to know before they can be asked; nobody is asked here
_PLACES = {
    "GOOGLE_CLOUD_PROJECT": "p",
    "GOOGLE_CLOUD_LOCATION": "global",
    "AWS_REGION": "us-east-1",
    "AZURE_OPENAI_ENDPOINT": "https://example.openai.azure.com",
}


def _tell_verdicts(found: list[Verdict], as_json: bool) -> int:
    from windlass.cli.console import out
    from windlass.cli.text import one_line

    paper = out()
    if as_json:
        import msgspec

        paper.json({"verdicts": msgspec.to_builtins(found)})
    width = max((len(f"{it.provider}:{it.model}") for it in found), default=0)
    for verdict in [] if as_json else found:
        who = f"{verdict.provider}:{verdict.model}".ljust(width)
        if verdict.refused is None:
            paper.line(f"{who}  ", ("taken", "green"))
        else:
            paper.line(f"{who}  ", ("refused", "red"), f" because {one_line(verdict.refused)}")
        for words in verdict.repaired:
            paper.line((f"  repaired on the way: {one_line(words)}", "dim"))
        for words in verdict.lost:
            paper.line((f"  not sent: {one_line(words)}", "dim"))
    return 1 if any(verdict.refused for verdict in found) else 0


def _read_session(session: str, store: str | None) -> Request:
    import asyncio

    from windlass.cli.store_location import find_place, match
    from windlass.errors import NoSuchSession

    place = find_place(store)
    if not place.exists:
        raise NoSuchSession(f"no session {session!r}: nothing is kept in {place.shown}")

    async def entries() -> Sequence[Any]:
        held = place.open(read_only=True)
        try:
            return await held.read(await match(held, session))
        finally:
            await held.aclose()

    return _request(asyncio.run(entries()))


def _request(entries: Sequence[Any]) -> Request:
    """What the next request of a session would carry."""
    from windlass.loop.plan import frame_of
    from windlass.loop.requests import last_frame
    from windlass.models.base import Frame, Request
    from windlass.store.view import messages_of

    last = last_frame(entries)
    return Request(messages_of(entries), Frame() if last is None else frame_of(last))


def _read_history_file(file: str) -> Request:
    """A history from a file: a transcript, a list of messages, or a journal of JSON lines."""
    import msgspec

    from windlass.errors import ConfigError
    from windlass.events import JournalEntry

    try:
        data = read_regular(file, LARGEST_EXPORT)
    except OSError as error:
        raise ConfigError(f"--transcript {file}: {error.strerror}") from None
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:
            lines = [line for line in data.splitlines() if line.strip()]
            return _request([msgspec.json.decode(line, type=JournalEntry) for line in lines])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"--transcript {file}: neither a transcript (JSON) nor a journal (JSON lines): {error}"
            ) from None
    return _from_plain(value, file)


def _from_plain(value: Any, file: str) -> Request:
    import msgspec

    from windlass.errors import ConfigError
    from windlass.messages import ToolSpec, as_messages
    from windlass.models.base import Frame, Request

    fields = cast("JsonObject", value) if isinstance(value, dict) else {"messages": value}
    said = fields.get("messages")
    try:
        if not isinstance(said, list):
            raise TypeError("there is no list of messages in it")
        messages = [
            msgspec.convert(one, _message_type()) if _has_blocks(one) else as_messages(one)[0]
            for one in cast("list[Any]", said)
        ]
        tools = msgspec.convert(fields.get("tools") or [], list[ToolSpec])
    except (msgspec.ValidationError, TypeError, ValueError, IndexError, KeyError) as error:
        raise ConfigError(f"--transcript {file}: {error}") from None
    if not tools:  # an export does not say which tools there were, but which were called
        called = dict.fromkeys(call.name for message in messages for call in message.tool_calls)
        tools = [ToolSpec(name, name, {"type": "object", "properties": {}}) for name in called]
    system = fields.get("system")
    return Request(messages, Frame(system if isinstance(system, str) else None, tuple(tools)))


def _message_type() -> Any:
    from windlass.messages import Message

    return Message


def _has_blocks(one: Any) -> bool:
    return isinstance(one, dict) and isinstance(cast("JsonObject", one).get("content"), list)
