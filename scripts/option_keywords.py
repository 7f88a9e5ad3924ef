"""Write the options of each entry point as keywords: types for checkers, lists for signatures."""

from __future__ import annotations

import ast
import re
from typing import Final

from option_groups import Declared, read_keys

#: The names of the types of keywords, and the door that each is for.
TYPES: Final = {
    "CompletionKeywords": ("completion", "What `llm_completion` takes by name."),
    "CallKeywords": (
        "call",
        "What `llm_call` and `llm_stream` take by name, beside the form of the answer.",
    ),
    "LoopOptions": ("loop", "Every option of `agent_loop`."),
    "AgentKeywords": ("agent", "What `Agent` takes by name, beside its named arguments."),
    "RunKeywords": ("run", "What `Agent.run` takes by name, beside its named arguments."),
}
_PROVIDERS: Final = (
    "anthropic openai openrouter huggingface ollama local llamacpp mlx together groq deepseek "
    "fireworks mistral gemini vertex bedrock"
).split()
#: Named arguments of `Agent`, which its overloads type by what they are given.
_OF_AGENT: Final = ("model", "system", "tools", "output", "deps_type")
_OF_RUN: Final = ("deps", "output", "deps_type")
_SYSTEM: Final = "str | Callable[..., str | Awaitable[str]] | None"
_JUDGE: Final = "bool | JsonObject | DoneJudge"

#: Options that take a value of any type, or a type.
_WIDE: Final = {
    "deps": "object",
    "deps_type": "type | None",
    "output": "object",
    "schema": "object",
}

Keywords = dict[str, tuple[str, str]]  # by name: type and default


def options_of(declared: list[Declared], door: str) -> Keywords:
    """Return the options of a door by name: their types and defaults as source."""
    found: Keywords = {}
    for one in declared:
        if door in one.doors:
            found[one.name] = (one.type, one.default)
        found |= {alias: (one.type, one.default) for alias, at in one.aliases if door in at}
    typed = {name: (_plain(kind), default) for name, (kind, default) in sorted(found.items())}
    return {name: (_WIDE.get(name, kind), default) for name, (kind, default) in typed.items()}


def _plain(kind: str) -> str:
    """Write a type without `Any` where another word says the same."""
    kind = kind.replace("dict[str, Any]", "JsonObject").replace(
        "Mapping[str, Any]", "Mapping[str, object]"
    )
    kind = re.sub(r"(Callable\[(?:\.\.\.|\[[^\]]*\]), )Any\]", r"\1object]", kind)
    return kind.replace("Sequence[Any]", "Sequence[object]")


def _without(keywords: Keywords, names: tuple[str, ...]) -> Keywords:
    return {name: value for name, value in keywords.items() if name not in names}


def write_keywords(declared: list[Declared], imports: dict[str, str]) -> str:
    """Write the types of keywords, for editors and type checkers."""
    body = ["", "", "class ProviderKeywords(TypedDict, total=False):"]
    words = "What one provider alone understands, under its name; any configured provider has one."
    body += [f'    """{words}"""', "", *[f"    {name}: JsonObject" for name in _PROVIDERS]]
    for name, (door, words) in TYPES.items():
        base = "TypedDict" if name == "LoopOptions" else "ProviderKeywords"
        keywords = options_of(declared, door)
        if door == "agent":
            keywords = _without(keywords, _OF_AGENT)
        elif door == "call":
            keywords = _without(keywords, ("schema", "response_format"))
        elif door == "run":
            keywords = {**_without(keywords, _OF_RUN), "system": ("str", "")}
        body += _typed_dict(name, base, words, keywords)
    body += _typed_dict(
        "LoopKeywords", "LoopOptions, ProviderKeywords", "What `agent_loop` takes by name.", {}
    )
    turn: Keywords = {"system": ("str", ""), "judge": (_JUDGE, "")}
    body += _typed_dict("TurnKeywords", "LoopKeywords", "What `agent_turn` takes by name.", turn)
    watch = {one.name: (_plain(one.type), "") for one in declared if one.group == "CallbackOptions"}
    words = "Who watches a run: the callbacks that `Agent.resume` takes by name."
    body += _typed_dict("WatchKeywords", "TypedDict", words, watch)
    words = "What `Agent.resume` takes by name, beside its named arguments."
    body += _typed_dict("ResumeKeywords", "WatchKeywords", words, _resume_options(declared))
    agent = options_of(declared, "agent")
    changes: Keywords = {
        "model": agent["model"],
        "system": (_SYSTEM, ""),
        "tools": agent["tools"],
        "deps_type": ("type | None", ""),
    }
    words = "What `Agent.with_` takes by name: every option of an agent, beside `output`."
    body += _typed_dict("ChangeKeywords", "AgentKeywords", words, changes)
    title = "The types of options as keywords, for editors and type checkers."
    return "\n".join([*_head(title, "TypedDict", imports, body), *body]) + "\n"


def _resume_options(declared: list[Declared]) -> Keywords:
    run = options_of(declared, "run")
    names = ("abort", "budget", "caller", "on_cancel", "store", "take_over", "timeout")
    return {name: run[name] for name in names}


def _typed_dict(name: str, base: str, words: str, keywords: Keywords) -> list[str]:
    lines = ["", "", f"class {name}({base}, total=False):", f'    """{words}"""', ""]
    return [*lines, *[f"    {option}: {kind}" for option, (kind, _) in sorted(keywords.items())]]


def write_generate_keywords(declared: list[Declared], imports: dict[str, str]) -> str:
    """Write the type of the keywords of `generate`: its own, and those of a loop that it takes."""
    words = "What `generate` takes by name: its own options and those of a loop, except its limits."
    body = _typed_dict("GenerateOpts", "TypedDict", words, generate_options(declared))
    body.insert(
        body.index(f'    """{words}"""'),
        f'    """{words}\n\n    `max_tokens` is for the whole loop: prompts, replies and what tools answer.\n    """',
    )
    body.remove(f'    """{words}"""')
    title = "The type of the options of `generate`, for editors and type checkers."
    return "\n".join([*_head(title, "TypedDict", imports, body), *body]) + "\n"


def generate_options(declared: list[Declared]) -> Keywords:
    """Return the options of `generate` by name."""
    from windlass.generate.options import REPLACED, GenerateOptions

    own = {name: (_plain(kind), default) for name, kind, default, _ in read_keys(GenerateOptions)}
    loop = _without(options_of(declared, "loop"), tuple(REPLACED))
    own |= {"tools": loop["tools"], "system": ("str | None", "None")}
    own["conversation"] = ("ConversationResource | str | None", "None")
    return {**loop, **own}


def write_keyword_lists(declared: list[Declared], imports: dict[str, str]) -> str:
    """Write one function for each entry point that has its options as parameters."""
    providers: Keywords = {name: ("JsonObject | None", "None") for name in _PROVIDERS}
    call, loop, agent, run = (
        options_of(declared, door) for door in ("call", "loop", "agent", "run")
    )
    system: Keywords = {"system": ("str | None", "None")}
    watch: Keywords = {name: run[name] for name in _watch_names(declared)}
    lists: dict[str, tuple[str, Keywords]] = {
        "take_completion_options": (
            "List the options of `llm_completion`.",
            {**options_of(declared, "completion"), **providers},
        ),
        "take_call_options": (
            "List the options of `llm_call` and `llm_stream`.",
            {**call, **providers},
        ),
        "take_loop_options": ("List the options of `agent_loop`.", {**loop, **providers}),
        "take_turn_options": (
            "List the options of `agent_turn`.",
            {**system, "judge": (_JUDGE, "True"), **loop, **providers},
        ),
        "take_generate_options": ("List the options of `generate`.", generate_options(declared)),
        "take_agent_options": (
            "List the options of `Agent`, beside its named arguments.",
            {**_without(agent, ("model", "tools")), **providers},
        ),
        "take_changes": (
            "List the options of `Agent.with_`.",
            {"system": (_SYSTEM, "None"), **agent, **providers},
        ),
        "take_run_options": (
            "List the options of `Agent.run`, beside its named arguments.",
            {**system, **_without(run, ("deps",)), **providers},
        ),
        "take_resume_options": (
            "List the options of `Agent.resume`, beside its named arguments.",
            {**_resume_options(declared), **watch},
        ),
    }
    body: list[str] = []
    for name, (words, keywords) in lists.items():
        body += ["", "", f"def {name}(", "    *,"]
        body += [
            f"    {option}: {kind} = {_shown(default)},"
            for option, (kind, default) in keywords.items()
        ]
        body += [") -> None:", f'    """{words}"""']
    title = "The options of each entry point as parameters: what `help` and completion show."
    return "\n".join([*_head(title, "", imports, body), *body]) + "\n"


def _watch_names(declared: list[Declared]) -> list[str]:
    return [one.name for one in declared if one.group == "CallbackOptions"]


def _shown(default: str) -> str:
    try:
        ast.literal_eval(default)
    except (ValueError, SyntaxError):
        return "None"
    return default


def _head(title: str, typing: str, imports: dict[str, str], body: list[str]) -> list[str]:
    """Write the start of a module: docstring and the imports of the names that it uses."""
    used = set(re.findall(r"[A-Za-z_]\w*", "\n".join(line.partition(":")[2] for line in body)))
    homes: dict[str, set[str]] = {}
    for name, home in imports.items():
        if name in used and not (home == "typing" and name == "Any"):
            homes.setdefault(home, set()).add(name)
    runtime = sorted({*([typing] if typing else []), "TYPE_CHECKING"} | ({"Any"} & used))
    lines = [
        f'"""{title}',
        "",
        "Written by `scripts/make_options.py` from the option groups. Nothing of Windlass loads this by itself.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        f"from typing import {', '.join(runtime)}",
        "",
        "if TYPE_CHECKING:",
    ]
    for module in sorted(homes.pop("", set())):
        lines.append(f"    import {module}")
    for home in sorted(homes, key=lambda home: (home.startswith("windlass"), home)):
        lines.append(f"    from {home} import {', '.join(sorted(homes[home]))}")
    return lines
