"""Actions that tools are named after, and the words with which people ask for them."""

from __future__ import annotations

from typing import Final

from windlass.access.flow.tokens import split_name

_SAME: Final = tuple(
    frozenset(group.split(","))
    for group in (
        "delete,remove,erase,drop,discard,trash,purge,wipe,clear,get rid,rid,take out,throw,bin,clean up",
        "cancel,call off,stop,end,terminate,withdraw,quit,unsubscribe,abort,drop,skip,take out,remove,"
        "delete,left,no longer,don't need,won't need,undo",
        "send,mail,email,write,tell,answer,reply,respond,message,forward,inform,thank,decline,confirm,"
        "notify,let know,ask,invite,say,post,dm,report,comment,accept,pass on,mention,announce,share,"
        "give,apologise,apologize,congratulate,remind,suggest,propose,request,warn,explain,contact,"
        "get back,drop line,text,ping,wish,submit,deliver,brief,point out,note,summarise,summarize,leave,"
        "describe,agree,refuse,order,inquire,enquire,complain,update",
        "share,give,access,send,grant,let see,let view,let edit,show,allow,open up",
        "transfer,pay,send,move,wire,remit,settle,give,money,put,top up,contribute,donate,owe,save,repay",
        "refund,pay back,money back,reimburse,give back,return,credit,repay,compensate",
        "book,reserve,take,order,buy,get,rent,ticket,stay,need,like",
        "buy,order,purchase,get,need",
        "block,lock,freeze,disable,deactivate,lost,stolen",
        "merge,squash,rebase,land,bring in,get in",
        "publish,release,ship,put out,announce",
        "approve,accept,confirm,allow,authorise,authorize,ok,okay",
        "reject,refuse,decline,deny,turn down,dismiss",
        "exchange,swap,replace,replacement",
        "view,see,look,read",
        "edit,change,modify,write",
        "archive,file,store,put away",
        "forward,redirect,pass on,send",
        "invite,ask,add,bring",
        "revoke,withdraw,remove,take away",
        "reset,restart,clear",
        "install,add,get",
        "deploy,release,ship,roll out",
        "close,closed,finish,end,resolve,shut,done",
        "open,reopen",
        "rename,call,name",
        "move,put,shift,transfer,reschedule,postpone",
        "restart,reboot",
        "grant,give,allow",
        "comment,reply,answer,write,say,tell,ask,thank,post,mention,respond,explain,leave,point out",
    )
)
#: Verbs that say only that something changes: what it is, the other arguments tell.
_GENERAL: Final = frozenset(
    "update set change create make add do run execute apply put submit save edit modify write call use "
    "handle process perform decide commit insert upsert assign enable toggle configure".split()
)
#: Choices of a schema that are verbs, so that other words may ask for them.
CHOICE_VERBS: Final = frozenset(
    "refund reject exchange approve view edit closed close open merge publish cancel delete".split()
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
