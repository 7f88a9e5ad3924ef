"""Capabilities of models: the row of facts about one, and the rules that make rows.

Wires and policies read rows; they do not guess by name. A rule says which models it is about by a glob,
with a star at its ends or one in the middle, that is compared with the lower-cased id. Versions are read
from the names that Anthropic and OpenAI give their models.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from windlass.errors import ConfigError
from windlass.json_types import JsonObject

Wire: TypeAlias = Literal[
    "anthropic", "openai_chat", "openai_responses", "gemini", "vertex", "ollama", "bedrock"
]
# The one table of wires: module and class. A wire is loaded when the first model of it is made.
WIRES: Final[dict[Wire, tuple[str, str]]] = {
    "anthropic": ("windlass.models.wires.anthropic.model", "AnthropicMessages"),
    "openai_chat": ("windlass.models.wires.openai.chat", "OpenAIChat"),
    "openai_responses": ("windlass.models.wires.openai.responses", "OpenAIResponses"),
    "gemini": ("windlass.models.wires.gemini.model", "GeminiGenerate"),
    "vertex": ("windlass.models.wires.gemini.vertex", "VertexGenerate"),
    "ollama": ("windlass.models.wires.ollama.model", "OllamaChat"),
    "bedrock": ("windlass.models.wires.bedrock.model", "BedrockConverse"),
}
DEFAULT_WIRE: Final[Wire] = "openai_chat"  # the wire of self-hosted servers
Search: TypeAlias = Literal["bm25", "regex", "hosted", "client"]
Mode: TypeAlias = Literal["enabled", "adaptive", "effort", "disabled"]
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Means: TypeAlias = Literal["schema", "json", "tool", "prompt"]
Lowering: TypeAlias = Literal[
    "",  # nothing is written
    "claude",  # thinking {type, budget_tokens}, output_config.effort
    "gemini_budget",  # generationConfig.thinkingConfig.thinkingBudget
    "gemini_level",  # generationConfig.thinkingConfig.thinkingLevel
    "nova",  # reasoningConfig {type, maxReasoningEffort}
    "effort",  # reasoning_effort
    "openrouter",  # reasoning {effort | max_tokens | enabled}
    "enabled",  # reasoning.enabled
    "type",  # thinking {type}
    "template",  # chat_template_kwargs.enable_thinking
    "think",  # think: true, false, or a level
    "prompt_mode",  # prompt_mode: "reasoning"
    "no_think",  # the text /no_think behind every user message
]


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities of one model; unknown facts have cautious defaults."""

    known: bool = False  # some row is about this model
    native_tools: bool = True
    defer_loading: bool = False
    tool_search: tuple[Search, ...] = ()  # the provider's own, preferred first
    max_tools: int | None = None
    prompt_caching: bool = False  # cache points are honoured, and a miss costs more than a hit
    thinking: bool = False
    thinking_modes: tuple[Mode, ...] = ()
    reasoning_effort_supported: bool = False

    efforts: tuple[Effort, ...] = ()  # the levels it takes, the lowest first
    thinking_budget: tuple[int, int] = (0, 32_768)  # the least and the most tokens
    always_thinks: bool = False  # thinking cannot be switched off
    lowering: Lowering = ""  # how all that is written
    interleaved_beta: str = (
        ""  # the feature that lets it think between calls, asked for with thinking
    )
    structured: tuple[Means, ...] = ("tool", "prompt")  # ways to a typed answer, the best first
    open_schemas: bool = True  # its schema mode takes objects whose keys the schema does not name
    schema_beside_tools: bool = True  # takes a schema of its answer and tools in one request
    sampling: bool = True  # takes temperature, top_p and top_k
    completion_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer", "user"] = "system"  # who instructs it
    echoes: bool = True  # takes its plain reasoning back beside its calls
    forces_calls: bool = True  # takes a tool_choice that demands a call
    strict_tools: bool = False  # holds the model to a tool's schema when asked to
    signs_calls: bool = False  # refuses calls in the history that carry no signature
    images: bool = True  # takes pictures at all
    media_results: bool = False  # takes pictures and documents inside a tool's result
    call_ids: Literal["any", "40", "9"] = "any"  # characters of a call's id
    tool_names: Literal["64", "dotted"] = "64"  # which names it takes as they are
    counts_tokens: bool = False  # has an endpoint that counts
    completes: Literal["", "completions", "fim", "infill", "generate"] = ""  # how text goes on
    wire: Wire | None = None  # the only one it is served over, where that is not its provider's


Version = tuple[int, int]

# routers' spellings of vendors that have another name here
_VENDORS: Final = {"google": "gemini", "mistralai": "mistral", "deepseek-ai": "deepseek"}

# claude-opus-4-7, claude-3-5-sonnet-20241022, claude-sonnet-4-20250514: a date is no minor version
_CLAUDE: Final = r"claude-(?:[a-z]+-)*v?(\d{1,2})(?:[-.:](\d{1,2}))?(?!\d)"
_GPT: Final = r"gpt-(?:(35)(?!\d)|(\d{1,2})(?:\.(\d{1,2}))?(?!\d))"  # Azure writes 35


@lru_cache(maxsize=1024)
def version_of(model: str) -> Version | None:
    """Return the major and minor version in a model name, or None.

    `version_of("us.anthropic.claude-opus-4-1-20250805-v1:0")` is (4, 1).

    None for names of other makers, and for names without a number.
    """
    name = model.lower()
    if found := re.search(_CLAUDE, name):
        return int(found[1]), int(found[2] or 0)
    if found := re.search(_GPT, name):
        return (3, 5) if found[1] else (int(found[2]), int(found[3] or 0))
    return None


def glob_problem(glob: str) -> str | None:
    """Return what is wrong with a glob; None if it is valid."""
    inner = glob.strip("*")
    if not glob:
        return "a glob may not be empty: write '*' for every model"
    if "**" in glob or "*" in inner and (inner != glob or inner.count("*") > 1):
        return f"{glob!r} is no glob we know: a star may stand at either end, or once in the middle"
    if odd := next((sign for sign in "?[]" if sign in glob), None):
        return f"{glob!r} is no glob we know: {odd!r} is not special, only '*' is"
    return None


def matches(glob: str, model: str) -> bool:
    """Check a glob against a lower-cased id: `matches("claude-*", "claude-opus-4-7")`."""
    head, star, tail = glob.partition("*")
    if not star:
        return model == glob
    if head or not tail.endswith("*"):
        return (
            len(model) >= len(head) + len(tail) and model.startswith(head) and model.endswith(tail)
        )
    return tail[:-1] in model


def _check(rule: Rule) -> None:
    if problem := glob_problem(rule.model_match):
        raise ValueError(problem)


if TYPE_CHECKING:

    class Rule(msgspec.Struct, frozen=True, kw_only=True):
        """One rule, as `capabilities.toml` writes it: the fields of `Capabilities`, or unset."""

        model_match: str
        version_min: Version | None = None

else:  # a rule may set the fields of a row; the others stay unset
    Rule = msgspec.defstruct(
        "Rule",
        [
            ("model_match", str),
            ("version_min", Version | None, None),
            *(
                # as text: types are looked up when the first rule is read
                (name, f"{annotation} | msgspec.UnsetType", msgspec.UNSET)
                for name, annotation in Capabilities.__annotations__.items()
                if name != "known"
            ),
        ],
        namespace={"__post_init__": _check, "__doc__": "One rule of the capability matrix."},
        module=__name__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )

#: Fields that are set together: all come from the first rule that sets any of them.
ABILITIES: Final = (
    "native_tools",
    "defer_loading",
    "tool_search",
    "max_tools",
    "prompt_caching",
    "thinking",
)
MANNERS: Final = tuple(
    name for name in Capabilities.__struct_fields__ if name not in (*ABILITIES, "known")
)


def applies(rule: Rule, model: str) -> bool:
    """Check whether the rule covers this lower-cased id."""
    if not matches(rule.model_match.lower(), model):
        return False
    if rule.version_min is None:
        return True
    version = version_of(model)
    return version is not None and version >= rule.version_min


def abilities(rule: Rule) -> JsonObject:
    """Return the abilities that the rule sets; empty where it sets only other fields."""
    fields = {name: getattr(rule, name) for name in ABILITIES}
    return {name: value for name, value in fields.items() if value is not msgspec.UNSET}


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of rules: `[[provider.<name>]]` and `[provider_family]`."""

    provider: dict[str, list[Rule]] = {}
    provider_family: dict[str, str] = {}


class Matrix:
    """Rules of several tables, the strongest first."""

    def __init__(self, *tables: Table) -> None:
        self._tables = [table.provider for table in tables]
        self._named = {name for table in tables for name in table.provider}
        self._family: dict[str, str] = {}
        for table in reversed(tables):
            self._family.update(table.provider_family)
        check_families(self._family)
        self._found: dict[tuple[str, str], Capabilities] = {}

    def of(self, provider: str, model: str) -> Capabilities:
        """Return the capabilities of a model."""
        key = provider, model
        if (found := self._found.get(key)) is None:
            found = self._found[key] = self._make(provider, model.lower())
        return found

    def _make(self, provider: str, model: str) -> Capabilities:
        facts: JsonObject = {}
        missing = set(MANNERS)
        for name, rule in self._about(provider, model):
            if "known" not in facts and (able := abilities(rule)):
                facts.update(able, known=True)
            for field in tuple(missing):
                value = getattr(rule, field)
                # a model that one provider serves in one way only is served by others in theirs
                if value is not msgspec.UNSET and (field != "wire" or name == provider):
                    facts[field] = value
                    missing.discard(field)
        if "known" in facts and not facts.get("thinking"):
            facts |= {"thinking_modes": (), "reasoning_effort_supported": False, "efforts": ()}
        return Capabilities(**facts)

    def _about(self, provider: str, model: str) -> Iterator[tuple[str, Rule]]:
        """Yield the rules that apply: of each table the first about abilities, and all others.

        What stands below the first is about other models, however well its glob fits.
        """
        for name, id in self._places(provider, model):
            for table in self._tables:
                able = False
                for rule in table.get(name, ()):
                    if applies(rule, id) and not (able and abilities(rule)):
                        able = able or bool(abilities(rule))
                        yield name, rule

    def _places(self, provider: str, model: str) -> Iterator[tuple[str, str]]:
        """Yield the providers whose rules apply, each with the model's id there."""
        ancestors = [provider]
        while (family := self._family.get(ancestors[-1])) is not None:
            ancestors.append(family)
        yield provider, model
        if vendor := self._vendor(provider, model):
            yield vendor
        bare = model.rpartition("/")[2]
        for family in ancestors[1:]:
            yield family, model
            if bare != model:
                yield family, bare

    def _vendor(self, provider: str, model: str) -> tuple[str, str] | None:
        """Return the vendor and its id from `vendor/name` or Amazon's `us.vendor.name`."""
        vendor, slash, name = model.partition("/")
        vendor = _VENDORS.get(vendor, vendor)
        if slash and vendor in self._named and vendor != provider:
            # a router writes claude-opus-4.7 for claude-opus-4-7
            return vendor, name.replace(".", "-") if vendor == "anthropic" else name
        if provider == "bedrock":
            dotted = model.rpartition("/")[2].split(".")  # an ARN ends in the name
            for at, vendor in enumerate(dotted[:2]):
                if vendor in self._named and vendor != provider:
                    return vendor, ".".join(dotted[at + 1 :])
        return None


def check_families(family: Mapping[str, str]) -> None:
    """Raise `ConfigError` for a cycle of families."""
    for name in family:
        line = [name]
        while (above := family.get(line[-1])) is not None:
            if above in line:
                raise Circle([*line[line.index(above) :], above])
            line.append(above)


class Circle(ConfigError):
    """A cycle of provider families."""

    def __init__(self, line: list[str]) -> None:
        super().__init__(
            f"provider_family.{line[0]}: it goes in a circle, {' -> '.join(line)}: "
            "take one of these families out"
        )
        self.line = line


def load_wire(wire: Wire) -> Any:
    """Import the class of a wire."""
    module, name = WIRES[wire]
    return getattr(import_module(module), name)
