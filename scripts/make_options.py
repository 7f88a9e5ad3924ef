"""Write down what the option groups declare: index, keyword types, flags and the options page.

`python scripts/make_options.py` writes the files; `--check` says which of them are not up to date.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args, get_type_hints

from option_groups import ROOT, SOURCE, Declared, read_all, read_keys, structs_of
from option_keywords import write_generate_keywords, write_keyword_lists, write_keywords

if TYPE_CHECKING:
    from windlass.options.group import Flag, Option

INDEX = SOURCE / "options" / "index.py"
KEYWORDS = SOURCE / "engine" / "keywords.py"
LISTS = SOURCE / "engine" / "keyword_lists.py"
GENERATE = SOURCE / "generate" / "keywords.py"
FLAGS = SOURCE / "options" / "flags.py"
TABLE = SOURCE / "options" / "agent_table.py"
PAGE = ROOT / "docs" / "reference" / "options.md"


def write_index(declared: list[Declared]) -> str:
    """Write the index: which group declares which option, and where each may be given."""
    from windlass.options.group import Door

    lines = [
        '"""Which group declares which option, and where each may be given.',
        "",
        "Written by `scripts/make_options.py` from the groups; `make check` says when it is out of date.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final",
        "",
        "#: The module and the group that declare an option.",
        "GROUPS: Final[dict[str, str]] = {",
        *[f'    "{one.name}": "{one.module}:{one.group}",' for one in declared],
        "}",
        "#: Other names of options.",
        "ALIASES: Final[dict[str, str]] = {",
        *[f'    "{alias}": "{one.name}",' for one in declared for alias, _ in one.aliases],
        "}",
        "#: The names that each door takes.",
        "NAMES: Final[dict[str, frozenset[str]]] = {",
    ]
    for door in get_args(Door):
        names = _names_at(declared, door)
        lines += [f'    "{door}": frozenset(', "        {", *[f'            "{n}",' for n in names]]
        lines += ["        }", "    ),"]
    lines += ["}"]
    for name, words, scopes in (
        ("OF_A_RUN", "Options that belong to one run.", ("run",)),
        ("SETTLED", "Options that cannot be changed in the middle of a run.", ("run", "start")),
    ):
        lines += [f"#: {words}", f"{name}: Final = frozenset(", "    {"]
        lines += [f'        "{one.name}",' for one in declared if one.scope in scopes]
        lines += ["    }", ")"]
    lines += [
        "#: What an option decides together with others: they take one default, or none.",
        "CHOICES: Final[dict[str, str]] = {",
        *[f'    "{one.name}": "{one.choice}",' for one in declared if one.choice],
        "}",
    ]
    return "\n".join(lines) + "\n"


def _names_at(declared: list[Declared], door: str) -> list[str]:
    names = [one.name for one in declared if door in one.doors]
    names += [alias for one in declared for alias, doors in one.aliases if door in doors]
    return sorted(names)


#: The order of flags in a help text: these first, in this order, then those of other modules.
_FLAGS_FIRST: Final = (
    "engine.model_options",
    "engine.tool_options",
    "engine.limit_options",
    "engine.run_options",
)


def write_flags(declared: list[Declared]) -> str:
    """Write the flags of the command line: their names, types, limits and help texts."""
    lines = [
        '"""The flags of the command line that give an option of an agent or of a run.',
        "",
        "Written by `scripts/make_options.py` from the option groups. It is data alone, so that `--help` is quick.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final, Literal, NamedTuple",
        "",
        "",
        "class CommandFlag(NamedTuple):",
        '    """A flag that gives an option, or one key of an option that is a struct."""',
        "",
        "    option: str",
        "    names: tuple[str, ...]",
        "    words: str",
        '    type: Literal["text", "int", "float", "choice", "switch"] = "text"',
        "    metavar: str | None = None",
        "    key: str | None = None",
        "    choices: tuple[str, ...] = ()",
        "    low: float | None = None",
        "    high: float | None = None",
        "    value: str | bool | None = None",
        "    repeats: bool = False",
        "    begins: bool = False",
        "    default: str | None = None",
        "",
        "",
        "FLAGS: Final[tuple[CommandFlag, ...]] = (",
    ]
    for one in sorted(declared, key=_place_of_flag):
        lines += [f"    CommandFlag({_show_flag(one, flag)})," for flag in _flags_of(one)]
    return "\n".join([*lines, ")"]) + "\n"


def _name_at(one: Declared, door: str) -> str:
    """Return the name that an option has at a door."""
    if door in one.doors:
        return one.name
    return next(alias for alias, doors in one.aliases if door in doors)


def _place_of_flag(one: Declared) -> tuple[int, str, int]:
    """Return what flags are sorted by: the module, then the order of the fields."""
    first = _FLAGS_FIRST.index(one.module) if one.module in _FLAGS_FIRST else len(_FLAGS_FIRST)
    group = getattr(import_module(f"windlass.{one.module}"), one.group)
    return first, one.module, group.__struct_fields__.index(one.name)


def _flags_of(one: Declared) -> tuple[Flag, ...]:
    return _option_of(one).flags


def _option_of(one: Declared) -> Option:
    """Return the facts of an option from its group: a new one is not in the index yet."""
    from windlass.options.group import read_options

    return read_options(getattr(import_module(f"windlass.{one.module}"), one.group))[one.name]


def _names_of(one: Declared, flag: Flag) -> tuple[str, ...]:
    return flag.names or (f"--{one.name.replace('_', '-')}",)


def _show_flag(one: Declared, flag: Flag) -> str:
    """Write the arguments of a `CommandFlag`; what is as usual is left out."""
    words = one.words if flag.key is None else _words_of_key(one, flag.key)
    words = flag.words or words.partition(". ")[0].rstrip(".") + "."
    shown: dict[str, object] = {"metavar": flag.metavar, "key": flag.key, **_type_of(one, flag)}
    shown |= {"repeats": flag.repeats or None, "begins": flag.begins or None}
    given = [f"{name}={value!r}" for name, value in shown.items() if value is not None]
    words = f"{words} {flag.note}".strip()
    return ", ".join(
        [repr(_name_at(one, "agent")), repr(_names_of(one, flag)), repr(words), *given]
    )


def _type_of(one: Declared, flag: Flag) -> dict[str, object]:
    from windlass.options.checks import ChoiceCheck, NumberCheck, OptionalCheck, boolean

    check = _option_of(one).check
    check = check.inner if isinstance(check, OptionalCheck) else check
    if flag.key is not None:
        whole = "float" not in str(get_type_hints(_key_owner(one, flag.key))[flag.key])
        return {"type": "int" if whole else "float", "low": flag.low}
    if flag.value is not None or check is boolean:
        return {"type": "switch", "value": True if flag.value is None else flag.value}
    if isinstance(check, ChoiceCheck):
        default = ast.literal_eval(one.default)
        return {"type": "choice", "choices": check.names, "default": default}
    if isinstance(check, NumberCheck):
        return {"type": "int" if check.whole else "float", "low": check.low, "high": check.high}
    return {}


def _key_owner(one: Declared, key: str) -> type[Any]:
    """Return the struct that an option may be and that has this key."""
    hint = get_type_hints(getattr(import_module(f"windlass.{one.module}"), one.group))[one.name]
    for kind in get_args(hint) or (hint,):
        if isinstance(kind, type) and key in getattr(kind, "__struct_fields__", ()):
            return kind
    raise SystemExit(f"{one.module}: {one.name} has no key {key!r} for its flag")


def _words_of_key(one: Declared, key: str) -> str:
    kind = _key_owner(one, key)
    source = Path(sys.modules[kind.__module__].__file__ or "").read_text("utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            for field, after in zip(node.body, node.body[1:], strict=False):
                match field, after:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(words))),
                    ) if name == key:
                        return words
                    case _:
                        pass
    raise SystemExit(f"{kind.__name__}: {key} has no docstring for the flag of {one.name}")


def write_table(declared: list[Declared]) -> str:
    """Write the keys of `[agent]` in `windlass.toml` and their types."""
    lines = [
        '"""The keys of `[agent]` in `windlass.toml`: options whose values a file can hold.',
        "",
        "Written by `scripts/make_options.py` from the option groups.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Any",
        "",
        "from msgspec import UNSET, Struct, UnsetType",
        "",
        "from windlass.json_types import JsonObject",
        "",
        "",
        "class AgentTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):",
        '    """Options of every agent that a file gives; code has the last word."""',
        "",
    ]
    for one in declared:
        if (shape := plain_type(one)) is not None:
            lines.append(f"    {_name_at(one, 'agent')}: {shape} | UnsetType = UNSET")
            lines.append(f'    """{one.words}"""')
    return "\n".join(lines) + "\n"


def plain_type(one: Declared) -> str | None:
    """Return the part of an option's type that TOML can hold; None: a file cannot give the option."""
    doors = one.doors.union(*(doors for _, doors in one.aliases))
    if "agent" not in doors or one.scope == "run" or one.deprecated or not one.in_file:
        return None
    shapes: list[str] = []
    for part in _members(ast.parse(one.type, mode="eval").body):
        match part:
            case ast.Name(id="Any"):
                return None
            case ast.Name(id="bool" | "int" | "float" | "str" as name):
                shapes.append(name)
            case ast.Name() if _is_choice(one):
                shapes.append("str")
            case ast.Subscript(value=ast.Name(id="Literal")):
                shapes.append("str")
            case ast.Subscript(value=ast.Name(id="dict" | "Mapping")):
                shapes.append("JsonObject")
            case ast.Subscript(value=ast.Name(id="Sequence"), slice=ast.Name(id="str")):
                shapes.append("list[str]")
            case ast.Subscript(value=ast.Name(id="Sequence"), slice=ast.Name(id="Any")):
                shapes.append("list[Any]")
            case _:
                pass
    return " | ".join(dict.fromkeys(shapes)) or None


def _members(node: ast.expr) -> list[ast.expr]:
    """Return the members of a union."""
    if isinstance(node, ast.BinOp):
        return [*_members(node.left), *_members(node.right)]
    return [node]


def _is_choice(one: Declared) -> bool:
    from windlass.options.checks import ChoiceCheck, OptionalCheck

    check = _option_of(one).check
    return isinstance(check.inner if isinstance(check, OptionalCheck) else check, ChoiceCheck)


def write_page(declared: list[Declared]) -> str:
    """Write the page of the options reference."""
    lines = [
        "# Options",
        "",
        "This page lists every option: its type, its default, where it may be given, and what it does. `[agent]` is",
        "the table of `windlass.toml`. `scripts/make_options.py` writes the page from the source.",
        "",
    ]
    titles = {"loop": "agent_loop", "agent": "Agent", "run": "Agent.run", "call": "llm_call"}
    titles["completion"] = "llm_completion"
    by_group: dict[tuple[str, str], list[Declared]] = {}
    for one in declared:
        by_group.setdefault((one.module, one.group), []).append(one)
    for (module, group), options in sorted(by_group.items()):
        loaded = getattr(import_module(f"windlass.{module}"), group)
        lines += [f"## {(loaded.__doc__ or group).rstrip('.')}", ""]
        lines += ["| option | accepts | default | given to | |", "|---|---|---|---|---|"]
        for one in options:
            accepts = one.type.replace("|", "\\|")
            given_to = [titles[door] for door in titles if door in one.doors]
            given_to += ["`[agent]`"] if plain_type(one) is not None else []
            doors = ", ".join(given_to)
            names = ", ".join([f"`{one.name}`", *[f"`{alias}`" for alias, _ in one.aliases]])
            words = one.words + (f" Deprecated: use `{one.deprecated}`." if one.deprecated else "")
            flags = ", ".join(f"`{_names_of(one, flag)[0]}`" for flag in _flags_of(one))
            words += f" In a shell: {flags}." if flags else ""
            default = "" if one.default.endswith("UNSET") else f"`{one.default}`"
            words = words.replace("|", "\\|")
            lines.append(
                f"| {names} | `{accepts}` | {default} | {doors or 'llm_options'} | {words} |"
            )
        lines.append("")
        for one in options:
            for kind in structs_of(one.module, one.group, one.name):
                lines += _keys_table(one.name, kind)
    return "\n".join(lines).rstrip() + "\n"


def _keys_table(option: str, kind: type[Any]) -> list[str]:
    lines = [f"Keys of `{option}`, which may be a dict or a `{kind.__name__}`:", ""]
    lines += ["| key | accepts | default | |", "|---|---|---|---|"]
    for name, shape, default, words in read_keys(kind):
        shown = shape.replace("|", "\\|")
        value = f"`{default}`" if default and len(default) < 60 else ""
        lines.append(f"| `{name}` | `{shown}` | {value} | {words} |")
    return [*lines, ""]


def main() -> int:
    """Write the files, or say which are out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    from windlass.options.index import GROUPS

    declared, imports = read_all()
    imports |= {
        "Awaitable": "collections.abc",
        "Callable": "collections.abc",
        "ConversationResource": "windlass.resources.conversation_rows",
        "DoneJudge": "windlass.policies.judges.options",
        "JsonObject": "windlass.json_types",
    }
    # An option that is new is not in the table of the last run, which its check is found by.
    GROUPS.update({one.name: f"{one.module}:{one.group}" for one in declared})
    written = {
        INDEX: write_index(declared),
        KEYWORDS: write_keywords(declared, imports),
        LISTS: write_keyword_lists(declared, imports),
        GENERATE: write_generate_keywords(declared, imports),
        FLAGS: write_flags(declared),
        TABLE: write_table(declared),
        PAGE: write_page(declared),
    }
    stale = 0
    for path, text in written.items():
        text = format_source(text) if path.suffix == ".py" else text
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale += 1
        if args.check:
            sys.stdout.write(f"{path.relative_to(ROOT)} is out of date: run make options\n")
        else:
            path.write_text(text, "utf-8")
            sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")
    return 1 if args.check and stale else 0


def format_source(text: str) -> str:
    """Lay a module out as the formatter does."""
    ruff = [sys.executable, "-m", "ruff"]
    options = ["--stdin-filename", "src/windlass/engine/keywords.py", "-"]
    for command in (["check", "--fix-only", "--quiet"], ["format", "--quiet"]):
        done = subprocess.run(
            [*ruff, *command, *options], input=text, capture_output=True, text=True, cwd=ROOT
        )
        text = done.stdout or text
    return text


if __name__ == "__main__":
    sys.exit(main())
