"""The reminder that tells a model which edit tool to use."""

from __future__ import annotations

from typing import Final

from windlass.events.policy import Reminder

TEXT: Final = """\
To change source code, take the most precise tool that fits:
1. Replace a whole function, class, method, key or statement: edit_apply_node, with \
node='class:Cart/function:total', or line=… or pattern='…'.
2. Add something: edit_insert_at_anchor, with an anchor and position before, after, first or last.
3. Rename: edit_rename_symbol; then look at the places that it lists as not touched.
4. Not sure what an edit will do: edit_dry_run shows its diff and writes nothing.
5. Only for text that no syntax node covers (comments, prose, other file types): \
edit_safe_text_patch, with text that stands in the file exactly once.
An edit that is refused wrote nothing: its message names the candidates or shows the syntax error; \
mend the call. If it says that the file changed, read the file again. Pass the digest of your last \
read or edit."""


def edit_reminder(*, ttl: int | None = None) -> Reminder:
    """Build a reminder about which edit tool to use: `on_session_start=w.edit_reminder()`.

    `ttl` is the number of turns it lives (None: the whole session).
    """
    return Reminder(TEXT, ttl)
