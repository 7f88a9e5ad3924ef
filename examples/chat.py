"""A chat that remembers: one session in SQLite, continued by every process that names it.

    python examples/chat.py                  a conversation of its own, in a temporary folder
    python examples/chat.py chat.db ann      you talk: one line, one turn; an empty line ends it

With `WINDLASS_MODEL=anthropic:claude-sonnet-4-5` (and a key) a real model answers.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import windlass as w
from windlass.testing import scripted


def memory(request: w.Request) -> str:
    """Without a key: a model that knows what was said in this session, and no more."""
    said = [message.text for message in request.messages if message.role == "user"]
    names = [found[1] for text in said if (found := re.search(r"I am (\w+)", text))]
    if said[-1].startswith("Who am I"):
        return f"You are {names[-1]}." if names else "You have not told me."
    return f"That is message {len(said)}."


def agent(store: str) -> w.Agent[None, str]:
    model = os.environ.get("WINDLASS_MODEL") or scripted(then=memory)
    return w.Agent(model, system="You are a friendly assistant.", store=store)


def talk(store: str, session: str) -> None:
    """Read lines until an empty one."""
    chatting = agent(store)
    while line := input("you: ").strip():
        print(chatting.run_sync(line, session_id=session).output)


def show() -> None:
    """Two agents as two processes would have them; then a fork, and the transcript."""
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "chat.db")
        print(agent(store).run_sync("Hello, I am Ann.", session_id="ann").output)
        print(agent(store).run_sync("Who am I?", session_id="ann").output)
        print(agent(store).run_sync("Who am I?", session_id="somebody-else").output)
        w.sync.agent_session_fork_at("ann", 2, "bea", store=opened(store))
        print(agent(store).run_sync("And now I am Bea.", session_id="bea").output)
        print(agent(store).run_sync("Who am I?", session_id="bea").output)
        session = w.sync.agent_session_read("ann", store=opened(store))
        print("---")
        print(w.transcript_render_visible(session.transcript))


def opened(store: str):
    """The store itself, for the functions that read and fork sessions."""
    from windlass.store import open_store

    return open_store(store)


if __name__ == "__main__":
    talk(*sys.argv[1:3]) if len(sys.argv) > 2 else show()
