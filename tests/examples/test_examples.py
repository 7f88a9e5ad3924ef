"""Every example runs as a stranger would run it, offline, and what it prints is what it claims."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from windlass.redaction.redactor import looks_secret

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

# What must be printed, in this order; other lines may stand between.
CLAIMS = {
    "refund_once": [
        "a process was killed (die inside): -9; refunds: 0",
        "a process was killed (die after): -9; refunds: 1",
        "resumed: done, 'The refund is on its way.'; refunds: 1",
    ],
    "resume_elsewhere": [
        "killed during pay: exit code -9",
        "killed during send_letter: exit code -9",
        "look_up: ok",
        "pay: ok",
        "send_letter: interrupted",
        "done: Paid. Please check the letter.",
        "payments at the bank: 1, letters: 1",
    ],
    "approval": [
        "monday: suspended",
        "waiting: refund(A-2): refund 990.00 EUR?",
        "A-1: ok: 9.00 EUR for A-1 paid back",
        "A-2: denied: Denied: too much",
        "wednesday: done: A-1 is refunded. A-2 was refused: too much.",
        "on record: deny by AskAbove:ann",
    ],
    "streaming": [
        "I will look.",
        "[temperature starts]",
        "[station 2 of 2]",
        "It is 21 °C in Graz.",
        "Il fait 21 °C à Graz.",
        "[done after 3 turns]",
    ],
    "budget": [
        "budget_exhausted (usd) after 5 turns and $0.10",
        "budget_exhausted (max_iterations) after 3 turns and $0.08",
        "last word: After 3 pages: I found nothing so far.",
        "three at once: ['budget_exhausted', 'budget_exhausted', 'budget_exhausted'], $0.12 together",
    ],
    "workflow": [
        "suspended: publish wants publish {'title': 'Autumn'}",
        "done: Autumn is online.",
        "  ● report (stage)  done, 2 times",
        "APPLES COST 2. (Fine.)",
    ],
    "chat_loop": [
        "Which cake? [wait_for_user]",
        "no command '/sene'; did you mean '/seen'? (commands: /exit, /seen)",
        "seen: ['Which cake?', 'Apple: done.']",
        "done after 3 answers",
    ],
    "daemon": [
        "  ready",
        '  read: Event 1 (file_changed): {"kind": "file_changed", "path": "a.py"}',
        "stopped with events [2, 3] not done",
        "refused: the daemon is stopped: resume it first",
        '  read: Event 2 (file_changed): {"kind": "file_changed", "path": "b.py"}',
        '  read: Event 3 (file_changed): {"kind": "file_changed", "path": "c.py"}',
        "stopped after 3 events, 0 waiting",
    ],
    "support_desk": [
        "user: I want my money back.",
        "agent: Which order?",
        "user: A-1.",
        "agent: A-1 is refunded.",
        "[done: simulated_user_stop]",
        "played by a model: done, A-1 is refunded.",
        "asks for ever: budget_exhausted after 3 replies",
    ],
    "own_model": ["It is 3 and 34.", "I only know sums.", "I only know sums.", "asked 3 times"],
    "handoffs": [
        "transfer_to_billing: ok",
        "close_account: denied",
        "refund: ok",
        "billing: Your money for A-1 is on its way.",
        "desk: Goodbye.",
    ],
    "subagent": [
        "researcher: Graz has 300,000 people.",
        "researcher: Linz has 212,000 people.",
        "Graz is larger than Linz.",
        "sessions: ['cities', 'cities.call_1', 'cities.call_2']",
        "tokens: 90 in all, 30 of them the chief's own",
    ],
    "typed_output": [
        "Invoice(customer='Ann', total=12.5)",
        "Ann pays 12.50 EUR, after 3 turns",
    ],
    "attempts": [
        "customer_of: Ann",
        "give_invoice: Ann: 2 lines, 10.00 EUR",
        "refused: the lines add up to 12.5",
        "Ann pays 12.50 EUR (attempt 2)",
        "INVALID_RESPONSE: the model called no tool (stop reason 'end_turn')",
    ],
    "judged": [
        "turn 1: tests_pass: add(1, 2) is -1, not 3",
        "turn 3: tests_pass: ok",
        "done: Now it is fixed. (the judge was asked 1 time)",
    ],
    "skills": [
        "invoices: send, read_skill_file",
        "letters: send, delete",
        "turn 1: invoices on (1 word in common)",
        "turn 3: letters on (2 words in common)",
        "Ann pays within 14 days.",
    ],
    "traced": [
        "odd: allowed_tools names 'serach', which no tool is; did you mean 'search'?",
        "seeker: llm_call tiny (turn 1), 15 tokens",
        "seeker: tool_call search",
        "odd: the same calls 2 turns in a row: search",
        "stuck: loop_detected=True, 2 turns",
    ],
    "presets": [
        "{'mode': 'adaptive', 'initial': 4, 'max': 16, 'extend_by': 2}",
        "['diff'] ['merge'] I may only look.",
        "['denied', 'ok'] Merged #7.",
    ],
    "shop": [
        "cy: Two cups are yours.",
        "cy: no role of acme/cy grants product.update (roles: customer)",
        "ann: suspended",
        "ann: done: It is gone.",
        "log: ann create product: ok",
        "log: cy place order: ok",
        "log: cy update product: denied",
        "log: ann search order: ok",
        "log: ann delete order: ok",
    ],
    "chat": ["That is message 1.", "You are Ann.", "You have not told me.", "You are Bea."],
}


def environment(home: Path) -> dict[str, str]:
    """Ours without keys, settings or a home."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not looks_secret(name) and not name.startswith(("WINDLASS_", "XDG_", "PYTEST"))
    }
    return {**kept, "HOME": str(home)}


def run(*command: str | Path, folder: Path, stdin: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", *command],
        cwd=folder,
        env=environment(folder),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("name", CLAIMS)
def test_the_example_does_what_it_claims(name: str, tmp_path: Path):
    lines = run(EXAMPLES / f"{name}.py", folder=tmp_path).splitlines()
    rest = iter(lines)
    for claim in CLAIMS[name]:
        assert claim in rest, f"{claim!r} is missing in {lines}"
    assert list(tmp_path.iterdir()) == []  # it cleans up after itself


def test_a_chat_is_continued_by_the_next_process(tmp_path: Path):
    chat = EXAMPLES / "chat.py"
    run(chat, "chat.db", "ann", folder=tmp_path, stdin="I am Ann\n\n")
    assert "You are Ann." in run(chat, "chat.db", "ann", folder=tmp_path, stdin="Who am I?\n\n")


NOTEBOOK = """
import nbclient, nbformat, sys
book = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(book, timeout=60, kernel_name="python3").execute()
for cell in book.cells:
    for output in cell.get("outputs", ()):
        print(cell.id, output.get("text") or sorted(output["data"]))
"""


def test_the_notebook_runs(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK, EXAMPLES / "notebook.ipynb"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout.splitlines()
    assert "await It is 42." in shown
    assert "sync It is still 42. 6" in shown
    assert "timeline ['text/html', 'text/plain']" in shown


def test_every_example_is_tested_and_listed():
    programs = {path.stem for path in EXAMPLES.glob("*.py")}
    assert programs == CLAIMS.keys()
    listed = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.iterdir():
        assert path.name == "README.md" or f"]({path.name})" in listed or path.is_dir()
