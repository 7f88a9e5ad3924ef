"""Actions that tools are named after, and the words with which people ask for them."""

from __future__ import annotations

from typing import Final

from windlass.access.flow.tokens import split_name

_SAME: Final = tuple(
    frozenset(group.split(","))
    for group in (
        "delete,remove,erase,drop,discard,trash,purge,wipe,clear,get rid,take out,throw",
        "cancel,call off,stop,end,terminate,withdraw,quit,unsubscribe,abort",
        "send,mail,email,write,tell,answer,reply,respond,message,forward,inform,thank,decline,confirm,"
        "notify,let know,ask,invite,say,post,dm,report,comment,accept,pass on,mention,announce",
        "share,give,access,send,grant",
        "transfer,pay,send,move,wire,remit,settle,give back,money",
        "refund,pay back,money back,reimburse,give back,return",
        "book,reserve,take,order,buy",
        "buy,order,purchase,get",
        "block,lock,freeze,disable,deactivate",
        "merge,squash,rebase",
        "publish,release,ship",
        "approve,accept,confirm,allow,authorise,authorize",
        "reject,refuse,decline,deny",
        "archive,file,store,put away",
        "forward,redirect,pass on,send",
        "invite,ask,add",
        "revoke,withdraw,remove,take away",
        "reset,restart,clear",
        "install,add,get",
        "deploy,release,ship,roll out",
        "close,finish,end",
        "rename,call,name",
        "move,put,shift,transfer",
        "restart,reboot",
        "grant,give,allow",
    )
)
#: Verbs that say only that something changes: what it is, the other arguments tell.
_GENERAL: Final = frozenset(
    "update set change create make add do run execute apply put submit save edit modify write call use "
    "handle process perform decide commit insert upsert assign enable toggle configure".split()
)
_ACTS: Final = _GENERAL | frozenset(verb for group in _SAME for verb in group if " " not in verb)


def action_of(tool: str) -> str | None:
    """Return the verb of a tool's name; None: it has none that says what becomes of its object."""
    first = split_name(tool)[:1]
    return first[0] if first and first[0] in _ACTS and first[0] not in _GENERAL else None


def is_action(tool: str) -> bool:
    """Return whether a tool's name says that it changes something: `delete_email`, `set_price`."""
    first = split_name(tool)[:1]
    return bool(first) and first[0] in _ACTS


def forms_of(action: str) -> frozenset[str]:
    """Return the words that ask for an action: cancel -> cancel, call off, stop, …"""
    found = {action}
    for group in _SAME:
        if action in group:
            found |= group
    return frozenset(found)
