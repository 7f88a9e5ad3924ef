"""What no rule of the move says: new packages, definitions that change their module, and texts."""

from __future__ import annotations

#: The first line of each package that is new.
PACKAGES = {
    "config": "The settings of `windlass.toml`: loaded, checked, and trusted or not.",
    "redaction": "Secrets, and how they are kept out of what is written.",
    "options": "How options are declared and checked; no option of its own.",
    "engine": "From options to a plan, a driven run, its result and its stream.",
    "llm": "Single model calls outside a run.",
    "generate": "The loop behind a model API: `scope.models.generate`.",
    "output": "Typed output: the schema, the request for it, and the policy that checks it.",
    "sessions": "Sessions of a store: list, read, fork, seed, approve, undo.",
    "replay": "Recorded runs: replay one, compare requests, show what the model saw.",
    "observe": "Observers of a run: OpenTelemetry, callbacks, tool sinks, transcript files.",
    "runtime": "The interfaces of a Runtime beside its models: its audit.",
    "policies.judges": "Judges of finished work and of single steps.",
    "policies.stall": "Stalls: calls that a run repeats, and what is done about them.",
    "policies.taint": "Taint: private data, untrusted content and ways out in one session.",
    "policies.turn_limit": "The limit on turns, fixed or adaptive.",
    "policies.tool_search": "Tools that a model finds by a search.",
    "policies.reminders": "Reminders from the beginning of a session.",
    "policies.preview": "Previews of effects, and runs by an approved plan.",
    "policies.context_strategy": "Strategies that keep the view small: window, summary, custom.",
    "models.registry": "Providers, capabilities and prices of models, shipped and configured.",
    "models.transport": "Bytes to and from a provider: HTTP, framing, and errors.",
    "models.wires.anthropic": "Anthropic's Messages API.",
    "models.wires.bedrock": "Amazon Bedrock's Converse API.",
    "models.wires.claude": "Claude models, over Anthropic's or Bedrock's API.",
    "models.wires.gemini": "Google's Gemini API, and Vertex AI.",
    "models.wires.ollama": "Ollama's chat API.",
    "models.wires.openai": "OpenAI's Chat Completions and Responses APIs, and compatible servers.",
    "tools.schema": "JSON Schemas of Python types.",
    "tools.arguments": "Arguments of tool calls: validated and repaired.",
    "tools.search": "Search among deferred tools.",
    "store.threaded": "Stores whose writes go through a thread of their own.",
    "store.sqlite": "Sessions in a SQLite file.",
    "store.postgres": "Sessions in Postgres.",
}

#: Definitions that go to another module: old module, names, new module, its first line if it is new.
EXTRACTS: list[tuple[str, tuple[str, ...], str, str]] = [
    ("agents.judgement", ("shaped",), "options.checks", ""),
    (
        "agents.subagent",
        ("AgentTool", "delegates"),
        "tools.middleware.agent",
        "A tool whose calls are runs of an agent, and how it is recognised.",
    ),
]

#: Folders as documents name them.
FOLDERS = {
    "models/rules/": "models/wires/",
    "models/probes/": "models/doctor/",
    "tools/wrappers/": "tools/middleware/",
    "picture/": "trace/",
}

#: The layers, from the top; the lowest one keeps what it has besides.
LAYERS = (
    "testing",
    "cli | server",
    "runtime",
    "agents | llm | generate | sessions | replay",
    "engine",
    "audit | output | observe",
    "policies | callers | resources",
    "loop",
    "models | tools | store | access | trace",
    "options",
)
GONE = frozenset({"notes", "trust", "toml_lines", "toml_shapes", "redact", "secret_forms"})
LOWEST = ("redaction", "globs")

_SILENT = """        "checking",
        "checks",
        "continuing",
        "effects",
        "judgement",
        "results",
        "tracing",
        "transcripts",
"""
_NEW_SILENT = """        "options.checks",
        "engine.option_checks",
        "llm.continuation",
        "sessions.effects",
        "engine.judge_options",
        "engine.results",
        "observe.otel",
        "engine.transcript",
"""

_READERS = """SOURCE = Path(__file__).parents[1] / "src" / "windlass"
#: The packages that read options by name.
READERS = frozenset(
    "agents audit engine generate llm observe output replay runtime sessions".split()
)
#: The modules of other packages that do.
OTHERS = frozenset(
    {
        "loop.abort",
        "models.keys",
        "options.checks",
        "options.prompts",
        "policies.access",
        "policies.build",
        "policies.compaction.options",
        "policies.context_strategy.options",
        "policies.judges.options",
        "policies.preview.options",
        "policies.projection.options",
        "policies.prompt_defaults",
        "policies.reminders.options",
        "policies.scratchpad.options",
        "policies.skills.options",
        "policies.taint.options",
        "policies.tool_search.plan",
        "policies.tool_surface",
        "tools.filter",
    }
)
"""

EDITS: list[tuple[str, str, str]] = [
    (
        "pyproject.toml",
        'ignore_imports = ["windlass.sync -> windlass"]  # by name, when somebody asks for one\n',
        """ignore_imports = [
    "windlass.sync -> windlass",  # by name, when somebody asks for one
    # To be turned round:
    "windlass.options.prompts -> windlass.policies.prompt_defaults",  # a behaviour declares its prompts
    "windlass.engine.environment -> windlass.generate.api",  # Runtime is to be split
    "windlass.engine.environment -> windlass.runtime.audit",
    "windlass.observe.transcript_file -> windlass.engine.environment",  # the folder is to be handed in
]
""",
    ),
    (
        "src/windlass/models/registry/prices.py",
        'files("windlass.models")',
        'files("windlass.models.registry")',
    ),
    ("src/windlass/models/registry/prices.py", '"catalog.toml"', '"prices.toml"'),
    (
        "src/windlass/models/registry/defaults.py",
        'files("windlass.models")',
        'files("windlass.models.registry")',
    ),
    (
        "tests/models/catalog/test_book.py",
        'files("windlass.models")',
        'files("windlass.models.registry")',
    ),
    (
        "tests/models/catalog/test_matrix.py",
        'files("windlass.models")',
        'files("windlass.models.registry")',
    ),
    (
        "scripts/make_catalog.py",
        '"models" / "catalog.toml"',
        '"models" / "registry" / "prices.toml"',
    ),
    (
        "src/windlass/options/checks.py",
        "_MOST = 2**63",
        "_Check = Callable[[str, Any], Any]\n_MOST = 2**63",
    ),
    # mutation
    (
        "mutation/lines.py",
        'AGENTS = Path(__file__).parents[1] / "src" / "windlass" / "agents"\n',
        _READERS,
    ),
    ("mutation/lines.py", _SILENT, _NEW_SILENT),
    (
        "mutation/lines.py",
        """    for path in sorted(AGENTS.rglob("*.py")):
        module = ".".join(path.relative_to(AGENTS).with_suffix("").parts)
        if module not in SILENT:
""",
        """    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        if reads_options(module) and module not in SILENT:
""",
    ),
    (
        "mutation/lines.py",
        """def lines(known: frozenset[str]) -> Iterator[Line]:
""",
        '''def reads_options(module: str) -> bool:
    """Does this module of Windlass, `engine.assemble` say, look up options by name?"""
    return module.partition(".")[0] in READERS or module in OTHERS


def lines(known: frozenset[str]) -> Iterator[Line]:
''',
    ),
    ("mutation/lines.py", "`tools@assemble:assemble#2`", "`tools@engine.assemble:assemble#2`"),
    (
        "mutation/mutants.py",
        "`done_judge@judging:_gates`",
        "`done_judge@engine.judge_policies:_gates`",
    ),
    ("mutation/hook.py", 'PACKAGE = "windlass.agents."', 'PACKAGE = "windlass."'),
    ("mutation/hook.py", "while `windlass.agents` is imported", "while `windlass` is imported"),
    ("mutation/hook.py", "`windlass.agents` is imported with", "`windlass` is imported with"),
    (
        "mutation/hook.py",
        "    early = [name for name in sys.modules if name.startswith(PACKAGE)]\n",
        "    early = [name for name in sys.modules if name.removeprefix(PACKAGE) in touched(mutant)]\n",
    ),
    (
        "mutation/hook.py",
        '{("options", "given"), ("agent", "_asked")}',
        '{("engine.options", "given"), ("agents.agent", "_asked")}',
    ),
    (
        "mutation/run.py",
        """            importlib.import_module(module.name)
    if early := [name for name in sys.modules if name.startswith("windlass.agents")]:
""",
        """            if not reads_options(module.name.removeprefix("windlass.")):
                importlib.import_module(module.name)
    loaded = [name.removeprefix("windlass.") for name in sys.modules if "windlass." in name]
    if early := [name for name in loaded if reads_options(name)]:
""",
    ),
    (
        "mutation/run.py",
        "from mutation.equivalent import EQUIVALENT\n",
        "from mutation.equivalent import EQUIVALENT\nfrom mutation.lines import reads_options\n",
    ),
    ("mutation/equivalent.py", "@assemble:", "@engine.assemble:"),
    ("mutation/equivalent.py", "@options:", "@engine.options:"),
    ("tests/project/test_mutation.py", "@preparing:", "@llm.request:"),
    ("tests/project/test_mutation.py", "@settings:", "@engine.settings:"),
    ("tests/project/test_mutation.py", '"options", "seed")', '"engine.options", "seed")'),
    ("tests/project/test_mutation.py", "AGENTS", "SOURCE"),
    (
        "tests/project/test_imports.py",
        '["messages", "events", "errors", "usage", "seams", "config", "redact"]',
        '["messages", "events", "errors", "usage", "seams", "config.loader", "redaction.redactor"]',
    ),
    (
        "tests/tools/test_imports.py",
        '["base", "function", "registry", "text"]',
        '["tool", "function", "registry", "render"]',
    ),
    ("tests/resources/test_two.py", '"two.py"', '"two_processes.py"'),
    ("tests/store/test_kill.py", '"killed.py"', '"kill_points.py"'),
    ("tests/testing/test_kill_sweep.py", '"toys.py"', '"kill_programs.py"'),
]

#: What is left after the merges.
LAST_EDITS: list[tuple[str, str, str]] = [
    ("tests/project/test_mutation.py", "@engine.settings:", "@engine.model:"),
]
