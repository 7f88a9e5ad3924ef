"""Words for a search: split, stemmed, and related to others of similar meaning.

English, small and general: it knows how people talk of files, mail, money and machines, and nothing
of any particular tool. What it does not know is compared letter by letter.
"""

from __future__ import annotations

import functools
import re

_RUN = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_VOWEL = re.compile(r"[aeiouy]")

#: Function words. They are ignored in a query, never in an index.
FUNCTION_WORDS = frozenset(
    """a about above after again all also am an and any anyone anything are as at be because been before
    being below between both but by can could did do does doing don down during each else every few
    for from further get give had has have having he her here hers him his how i if in into is isn it
    its just kindly know let like ll long lot many may maybe me might mine more most much must my need
    needs no nor not now of off on once one only or other our ours out over own please re s same shall
    she should so some someone something such t than thank thanks that the their theirs them then there
    these they this those through to today tomorrow too under until up us ve very via want wants was we
    were what when where which while who whom whose why will with within without would yes yet you your
    yours""".split()
)

#: One line, one meaning. A word may stand in several lines.
_MEANINGS = """
    create make new add insert build generate produce
    open create start raise file
    delete remove erase drop destroy discard purge
    change edit modify modification update alter adjust set amend
    fix repair correct patch mend
    read show view display see contents print
    fetch get retrieve download load pull
    find search look lookup locate query where
    list enumerate overview which
    send deliver forward dispatch
    tell notify post inform announce say message
    write compose draft
    save store keep record persist
    stop cancel end terminate halt abort quit
    pause suspend hold
    restart reboot relaunch reset
    undo revert back previous earlier rollback restore
    run execute start launch invoke
    move transfer shift relocate
    copy duplicate clone replicate
    rename name title label
    compare diff difference
    check verify validate test inspect
    approve accept acknowledge confirm
    reject refuse deny decline
    assign delegate responsible owner
    review feedback comment
    merge join combine
    split divide separate
    upload attach put
    share publish public
    convert export transform turn
    count number many total sum
    increase raise grow more higher
    decrease reduce lower fewer shrink
    schedule plan book reserve arrange
    invite attend attendee participant guest
    preview simulate would dry
    silence mute quiet stop
    deploy release rollout ship
    sign signature signed
    mail email inbox mailbox message letter
    chat channel thread conversation
    call phone telephone dial ring
    meeting appointment event calendar
    available availability free busy slot
    day date week month weekend year time when
    money payment pay cash fund amount
    refund reimburse return money back
    currency dollar euro pound yen exchange
    price cost fee rate charge
    bill invoice receipt
    due overdue unpaid outstanding open pending
    subscription plan recurring monthly membership
    purchase buy order sale
    customer client buyer
    prospect lead potential possible opportunity
    company business firm organisation organization
    employee staff worker team colleague
    person people user member
    author writer write
    contract agreement lease deal
    support help helpdesk case ticket
    bug defect issue error fault problem task
    crash fail broken failure down
    incident outage alert alarm
    log output stdout printed trace
    metric monitor cpu memory latency performance
    code source program script
    repository repo git
    branch commit revision version checkin
    file document doc
    folder directory path
    text word contents
    table spreadsheet row column sheet excel
    database db sql record table
    picture image photo drawing draw illustration
    logo icon illustration design
    screenshot capture screen look
    audio speech voice recording spoken sound
    video film movie clip
    language translate translation spoken english german french spanish italian japanese chinese korean
    website site page web url internet online google
    link url address
    news article internet recent headline
    map route direction way navigate
    drive car travel trip road journey
    walk foot pedestrian
    train bus transit transport
    near nearby around close
    restaurant eat food meal dinner lunch cafe
    hotel stay room accommodation
    place location city town
    weather rain snow wind temperature forecast umbrella sunny cold warm hot
    warehouse stock inventory supply storage
    product item article goods sku
    server instance machine host service
    container image docker
    cluster kubernetes pod replica
    scale replica instance capacity traffic
    infrastructure cloud resource
    cloud bucket storage
    password secret credential login
    permission access right role
    printing printable pdf paper
    summary summarize abstract digest
    note memo remark
    reminder remind alarm
"""

_IRREGULAR: dict[str, str] = {
    past: present
    for past, _, present in (
        pair.partition(":")
        for pair in """bought:buy built:build chosen:choose done:do drawn:draw drew:draw driven:drive
        drove:drive eaten:eat found:find given:give gone:go heard:hear held:hold kept:keep left:leave
        lost:lose made:make met:meet paid:pay people:person ran:run said:say saw:see seen:see sent:send
        shown:show sold:sell spoke:speak spoken:speak spent:spend taken:take told:tell took:take
        went:go won:win written:write wrote:write""".split()
    )
}


def words(text: str) -> list[str]:
    """Split a text into lower-case words; `openFile` gives its parts and the whole.

    `words("openFile")` is `["open", "file", "openfile"]`.
    """
    found: list[str] = []
    for run in _RUN.findall(text):
        parts = _HUMP.split(run) if not run.islower() else [run]
        found += [part.lower() for part in parts]
        if len(parts) > 1:
            found.append(run.lower())
    return found


@functools.lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """Stem a word: `refunds` and `refunded` are `refund`."""
    word = _IRREGULAR.get(word, word)
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    word = _singular(word)
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            rest = word.removesuffix(ending)
            if _VOWEL.search(rest):
                word = _single(rest)
            break
    for ending in ("ability", "able", "ible", "ment", "ness", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            word = word.removesuffix(ending)
            break
    if word.endswith(("tion", "sion")) and len(word) >= 7:
        word = word.removesuffix("ion")
    if word.endswith("e") and len(word) > 3:
        word = word.removesuffix("e")
    return word.removesuffix("y") + "i" if word.endswith("y") and len(word) > 3 else word


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word.removesuffix("ies") + "y"
    if word.endswith(("sses", "shes", "ches", "xes")):
        return word.removesuffix("es")
    if word.endswith("s") and not word.endswith(("ss", "us", "is", "news")):
        return word.removesuffix("s")
    return word


def _single(word: str) -> str:
    """Undouble the last letter: `stopp` is `stop`."""
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        return word[:-1]
    return word


@functools.cache
def _meanings() -> dict[str, frozenset[str]]:
    near: dict[str, set[str]] = {}
    for line in _MEANINGS.strip().splitlines():
        group = {stem(word) for word in line.split()}
        for word in group:
            near.setdefault(word, set()).update(group)
    return {word: frozenset(group - {word}) for word, group in near.items()}


def related_stems(stemmed: str) -> frozenset[str]:
    """Return stems of similar meaning: `related_stems(stem("bill"))` has that of `invoice`."""
    return _meanings().get(stemmed, frozenset())


def trigrams(word: str) -> frozenset[str]:
    """Return the pieces of three letters of a word, its ends marked."""
    marked = f"^{word}$"
    return frozenset(marked[place : place + 3] for place in range(len(marked) - 2))


def resemblance(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of common pieces of two words, from 0 to 1."""
    return 2 * len(one & other) / (len(one) + len(other))
