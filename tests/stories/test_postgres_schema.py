"""Tables in Postgres are ours alone: nobody else's schema, function, trigger or policy is used."""

from __future__ import annotations

import asyncio
import itertools
import os

import pytest

import windlass as w
from windlass.errors import Locked, StoreError
from windlass.store import seals
from windlass.store.postgres.address import Address
from windlass.store.postgres.connection import connect
from windlass.store.postgres.schema import LOCK, VALUES_LOCK
from windlass.store.postgres.store import PostgresStore
from windlass.testing import scripted
from windlass.testing.postgres import MISSING, find_binaries, own_server, shared_server

pytestmark = pytest.mark.skipif(find_binaries() is None, reason=MISSING)
SEALS_LOCK = 0x77696E647365616C
_numbers = itertools.count(1)


class Place:
    """A schema of a role's own, and a second role that is up to something."""

    def __init__(self) -> None:
        self.server = shared_server()
        number = f"{os.getpid()}_{next(_numbers)}"
        self.app, self.mallory, self.schema = f"app{number}", f"mallory{number}", f"s{number}"
        self.server.sql(
            f"CREATE ROLE {self.app} LOGIN; CREATE ROLE {self.mallory} LOGIN;"
            f"CREATE SCHEMA {self.schema} AUTHORIZATION {self.app};"
            f"GRANT USAGE ON SCHEMA {self.schema} TO {self.mallory};"
        )

    def url(self, path: str | None = None, user: str | None = None) -> str:
        url = self.server.url(search_path=path or self.schema)
        return url.replace("windlass@", f"{user or self.app}@")

    def sql(self, statement: str, user: str | None = None) -> str:
        """As the schema's own role; names without a schema are in it."""
        return self.server.sql(
            f"SET ROLE {user or self.app}; SET search_path = {self.schema}; {statement}"
        )

    def lend(self, statement: str) -> None:
        """What the other role did while it was allowed to create."""
        self.server.sql(f"GRANT CREATE ON SCHEMA {self.schema} TO {self.mallory}")
        self.sql(statement, self.mallory)
        self.server.sql(f"REVOKE CREATE ON SCHEMA {self.schema} FROM {self.mallory}")


@pytest.fixture
def place() -> Place:
    return Place()


async def use(url: str) -> None:
    """Open a store, write a session and read it."""
    store = PostgresStore(url, busy_timeout=5.0)
    try:
        journal = await store.open("a1")
        await journal.close()
        assert [info.id for info in await store.sessions()] == ["a1"]
    finally:
        await store.aclose()


async def refuse(url: str, words: str) -> None:
    store = PostgresStore(url, busy_timeout=5.0)
    try:
        with pytest.raises(StoreError, match=words):
            await store.sessions()
        with pytest.raises(StoreError, match=words):
            await store.open("a1")
    finally:
        await store.aclose()


# --------------------------------------------------------------------------- who owns what


async def test_schema_of_another_role_is_refused(place):
    place.server.sql(
        f"ALTER SCHEMA {place.schema} OWNER TO {place.mallory};"
        f"GRANT ALL ON SCHEMA {place.schema} TO {place.app}"
    )
    await refuse(place.url(), f"belongs to role '{place.mallory}'.*ALTER SCHEMA")
    place.server.sql(f"ALTER SCHEMA {place.schema} OWNER TO {place.app}")
    await use(place.url())


@pytest.mark.parametrize("whom", ["PUBLIC", "mallory"])
async def test_schema_in_which_others_create_is_refused(place, whom):
    role = place.mallory if whom == "mallory" else whom
    place.server.sql(f"GRANT CREATE ON SCHEMA {place.schema} TO {role}")
    await refuse(place.url(), f"role '{role}' may create.*REVOKE CREATE ON SCHEMA")
    made = f"SELECT count(*) FROM pg_class WHERE relnamespace = '{place.schema}'::regnamespace"
    assert place.server.sql(made) == "0"
    place.server.sql(f"REVOKE CREATE ON SCHEMA {place.schema} FROM {role}")
    await use(place.url())


PLANTED = {
    "table": "CREATE TABLE windlass_meta (key text PRIMARY KEY, value text NOT NULL);"
    "GRANT ALL ON windlass_meta TO PUBLIC",
    "view": "CREATE VIEW windlass_meta AS SELECT 'schema' AS key, '2' AS value;"
    "GRANT ALL ON windlass_meta TO PUBLIC",
    "later table": "CREATE TABLE windlass_audit (n bigint); GRANT ALL ON windlass_audit TO PUBLIC",
    "sequence": "CREATE SEQUENCE windlass_run_numbers; GRANT ALL ON windlass_run_numbers TO PUBLIC",
    "function": "CREATE FUNCTION encode(bytea, varchar) RETURNS text LANGUAGE sql AS 'SELECT $2'",
    "operator": "CREATE FUNCTION same(text, varchar) RETURNS bool LANGUAGE sql AS 'SELECT true';"
    "CREATE OPERATOR = (FUNCTION = same, LEFTARG = text, RIGHTARG = varchar)",
}


@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.parametrize("user", ["app", "superuser"])
async def test_what_another_role_left_in_the_schema_is_refused(place, what, user):
    place.lend(PLANTED[what])
    if user == "app":
        user = place.app
    else:
        user = "windlass"
        place.server.sql(f"ALTER SCHEMA {place.schema} OWNER TO windlass")
    await refuse(place.url(user=user), f"belongs to role '{place.mallory}'.*drop it")
    place.server.sql(f"DROP OWNED BY {place.mallory}")
    if user == "windlass":  # who may do everything has most to lose
        place.server.sql(f"GRANT CREATE ON SCHEMA {place.schema} TO {place.app}")
        await refuse(place.url(user=user), f"role '{place.app}' may create")
        place.server.sql(f"REVOKE CREATE ON SCHEMA {place.schema} FROM {place.app}")
    await use(place.url(user=user))


async def test_second_schema_of_the_path_counts_as_well(place):
    other = Place()
    both = f"{place.schema},{other.schema}"
    place.server.sql(f"GRANT USAGE ON SCHEMA {other.schema} TO {place.app}")
    await refuse(place.url(both), f"schema '{other.schema}' belongs to role '{other.app}'")
    place.server.sql(f"ALTER SCHEMA {other.schema} OWNER TO {place.app}")
    place.server.sql(f"CREATE TABLE {other.schema}.orders (id text)")
    place.server.sql(f"GRANT ALL ON {other.schema}.orders TO {place.app}")
    store = PostgresStore(place.url(both))
    await store.commit(lambda tx: tx.execute("INSERT INTO orders VALUES ('A-1')"))
    await store.aclose()
    assert place.server.sql(f"SELECT id FROM {other.schema}.orders") == "A-1"


async def test_schema_with_the_name_of_the_user_does_not_take_over(place):
    """The usual path begins with "$user": whoever may create schemas can make that one."""
    usual = f'"$user",{place.schema}'
    await use(place.url(usual))
    place.server.sql(f"CREATE SCHEMA {place.app} AUTHORIZATION {place.mallory}")
    place.server.sql(f"GRANT USAGE ON SCHEMA {place.app} TO {place.app}")
    await refuse(place.url(usual), f"schema '{place.app}' belongs to role '{place.mallory}'")
    place.server.sql(f"ALTER SCHEMA {place.app} OWNER TO {place.app}")
    await use(place.url(usual))  # the control, with the tables where they were
    assert place.sql("SELECT count(*) FROM windlass_sessions") == "1"


async def test_group_may_own_schema_and_tables(place):
    place.server.sql(
        f"CREATE ROLE {place.schema}_team; GRANT {place.schema}_team TO {place.app}, {place.mallory};"
        f"ALTER SCHEMA {place.schema} OWNER TO {place.schema}_team"
    )
    team = f"SET ROLE {place.schema}_team; SET search_path = {place.schema};"
    store = PostgresStore(place.url())
    await store.sessions()
    await store.aclose()
    await refuse(place.url(user=place.mallory), f"belongs to role '{place.app}'")
    place.server.sql(f"REASSIGN OWNED BY {place.app} TO {place.schema}_team; {team}")
    await use(place.url())
    await use(place.url(user=place.mallory))  # a colleague


async def test_schema_with_an_odd_name_is_pinned(place):
    odd = f'"we""ird, {place.schema}"'
    place.server.sql(f"CREATE SCHEMA {odd} AUTHORIZATION {place.app}")
    await use(place.url(odd))
    assert place.server.sql(f"SELECT count(*) FROM {odd}.windlass_sessions") == "1"


# --------------------------------------------------------------------------- what hangs on our tables

RUNS = "CREATE FUNCTION run() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
CHANGED = {
    "trigger": f"{RUNS} CREATE TRIGGER t BEFORE INSERT ON windlass_rows FOR EACH ROW EXECUTE FUNCTION run()",
    "rule": "CREATE RULE quiet AS ON DELETE TO windlass_rows DO INSTEAD NOTHING",
    "row level security": "ALTER TABLE windlass_inbox ENABLE ROW LEVEL SECURITY",
    "policy": "CREATE POLICY p ON windlass_inbox USING (kind <> 'decision')",
    "inheritance": "CREATE TABLE more () INHERITS (windlass_inbox)",
    "unlogged": "ALTER TABLE windlass_rows SET UNLOGGED",
    "column": "ALTER TABLE windlass_rows ADD COLUMN extra text",
    "generated column": "ALTER TABLE windlass_tokens ADD COLUMN g text GENERATED ALWAYS AS (upper(token)) STORED",
    "column type": "ALTER TABLE windlass_sessions ALTER COLUMN title TYPE varchar(10)",
    "column that may be empty": "ALTER TABLE windlass_rows ALTER COLUMN hash DROP NOT NULL",
    "default": "ALTER TABLE windlass_sessions ALTER COLUMN title SET DEFAULT current_user::text",
    "check constraint": "ALTER TABLE windlass_sessions ADD CONSTRAINT c CHECK (length(id) < 99)",
    "foreign key": "ALTER TABLE windlass_inbox ADD FOREIGN KEY (sid) REFERENCES windlass_sessions",
    "index": "CREATE INDEX i ON windlass_sessions (lower(title))",
    "partial index": "CREATE INDEX i ON windlass_sessions (title) WHERE length(title) > 3",
    "view": "CREATE OR REPLACE VIEW windlass_model_calls AS SELECT c.n, c.at, r.tenant, r.caller, r.request,"
    " r.conversation, r.session, r.run, r.door, coalesce(c.provider, '') AS provider,"
    " coalesce(c.model, '') AS model, c.purpose, c.input_tokens, c.output_tokens, c.cache_read_tokens,"
    " c.cache_write_tokens, c.reasoning_tokens, c.gpu_ms, c.cost_usd, c.latency_ms, c.attempts,"
    " c.tool_calls, coalesce(c.outcome, 'ok') AS outcome, c.via"
    " FROM windlass_calls c LEFT JOIN windlass_runs r ON r.n = c.run, windlass_meta",
    "another view": "CREATE VIEW windlass_more AS SELECT 1",
    "materialized view": "CREATE MATERIALIZED VIEW windlass_more AS SELECT 1",
}
UNDONE = {
    "trigger": "DROP TRIGGER t ON windlass_rows",
    "rule": "DROP RULE quiet ON windlass_rows",
    "row level security": "ALTER TABLE windlass_inbox DISABLE ROW LEVEL SECURITY",
    "policy": "DROP POLICY p ON windlass_inbox",
    "inheritance": "DROP TABLE more",
    "column": "ALTER TABLE windlass_rows DROP COLUMN extra",
    "check constraint": "ALTER TABLE windlass_sessions DROP CONSTRAINT c",
    "index": "DROP INDEX i",
    "another view": "DROP VIEW windlass_more",
}


@pytest.mark.parametrize("what", CHANGED)
async def test_what_hangs_on_our_tables_is_refused(place, what):
    await use(place.url())
    place.sql(CHANGED[what])
    await refuse(place.url(), "is none of ours")
    if what in UNDONE:
        place.sql(UNDONE[what])
        await use(place.url())


async def test_tables_of_others_and_plain_indexes_are_left_alone(place):
    await use(place.url())
    place.sql(
        f"CREATE TABLE orders (id text, low text GENERATED ALWAYS AS (lower(id)) STORED); {RUNS}"
        "CREATE TRIGGER t BEFORE DELETE ON orders FOR EACH ROW EXECUTE FUNCTION run();"
        "CREATE VIEW titles AS SELECT id, title FROM windlass_sessions;"
        "CREATE INDEX mine ON windlass_sessions (updated_at)"
    )
    await use(place.url())


async def test_tables_that_are_made_later_are_known(place):
    """Seals, tombstones and the audit log appear when they are first used."""

    class Order(w.Resource):
        id: str
        cents: int = 0

    ann = w.Caller("ann", roles=("admin",))
    async with w.Runtime(store=place.url(), environ={}, resources=[Order]) as runtime:
        await runtime.resources[Order].create(id="A-1", cents=5, caller=ann)
        await w.Agent(scripted("Hello."), caller=ann).run("Hello.", session_id="a1")
        await runtime.store.commit(seals.ensure)
        assert await runtime.store.delete("a1")
    tables = place.server.sql(
        f"SELECT count(*) FROM pg_tables WHERE schemaname = '{place.schema}' AND tablename = 'windlass_audit'"
    )
    assert tables == "1"
    await use(place.url())
    place.sql(f"{RUNS} CREATE TRIGGER t BEFORE INSERT ON windlass_audit EXECUTE FUNCTION run()")
    await refuse(place.url(), "trigger 't' on 'windlass_audit' is none of ours")


async def test_every_connection_has_the_path(place):
    store = PostgresStore(place.url(f"{place.schema},public"))
    await asyncio.gather(*(store.open(f"s{n}") for n in range(6)))
    shown = f'"{place.schema}", "public", pg_temp'

    def read(tx):
        return tx.execute("SELECT current_setting('search_path')").fetchone()[0]

    seen = await asyncio.gather(
        *(store.consult(read) for _ in range(8)), *(store.commit(read) for _ in range(16))
    )
    assert set(seen) == {shown}

    def shadow(tx):
        tx.execute("CREATE TEMPORARY TABLE windlass_meta_x (key text, value text)")
        tx.execute("ALTER TABLE windlass_meta_x RENAME TO notes")
        tx.execute("CREATE TEMPORARY TABLE orders (id text) ON COMMIT DROP")
        tx.execute("SELECT * FROM orders")

    with pytest.raises(StoreError, match="own table"):
        await store.commit(shadow)
    assert len(await store.sessions()) == 6
    await store.aclose()


async def test_temporary_table_hides_none_of_ours(place):
    await use(place.url())
    connection = await connect(Address(place.url()), 5.0, {})
    store = PostgresStore(place.url())
    await store.sessions()
    pinned = await store.consult(
        lambda tx: tx.execute("SELECT current_setting('search_path')").fetchone()[0]
    )
    await connection.execute("CREATE TEMPORARY TABLE windlass_sessions (id text)")
    count = "SELECT count(*) FROM windlass_sessions"
    assert await connection.fetchval(count) == 0  # without the pin it would be read
    await connection.execute("SELECT set_config('search_path', $1, false)", pinned)
    assert await connection.fetchval(count) == 1
    await connection.close()
    await store.aclose()


# --------------------------------------------------------------------------- waits


async def hold(url: str, lock: int):
    holder = await connect(Address(url), 30.0, {})
    await holder.execute("SELECT pg_advisory_lock($1)", lock)
    return holder


@pytest.mark.parametrize("more", ["", "&lock_timeout=0", "&lock_timeout=0ms"])
async def test_wait_for_the_lock_of_the_tables_ends(more):
    with own_server(durable=False) as server:
        holder = await hold(server.url(), LOCK)
        store = PostgresStore(server.url() + more, busy_timeout=0.2)
        with pytest.raises(Locked, match="another connection holds"):
            await store.sessions()
        await store.aclose()
        patient = PostgresStore(server.url() + more, busy_timeout=30.0)
        waiting = asyncio.ensure_future(patient.sessions())
        await wait_for_waiter(holder)
        await holder.execute("SELECT pg_advisory_unlock($1)", LOCK)
        assert await waiting == []
        await patient.aclose()
        await holder.close()


async def wait_for_waiter(connection) -> None:
    """Until another connection waits for an advisory lock."""
    waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    while not await connection.fetchval(waits):
        await connection.execute("SELECT pg_sleep(0.01)")


async def test_wait_for_the_locks_of_values_and_seals_ends():
    with own_server(durable=False) as server:
        url = server.url()
        await use(url)
        holder = await hold(url, VALUES_LOCK)
        store = PostgresStore(url, busy_timeout=0.2)
        with pytest.raises(Locked, match="another connection holds"):
            await store.delete("a1")
        assert len(await store.sessions()) == 1
        await holder.execute("SELECT pg_advisory_unlock($1)", VALUES_LOCK)
        assert await store.delete("a1")
        await holder.execute("BEGIN")
        await holder.execute("SELECT pg_advisory_xact_lock($1)", SEALS_LOCK)
        with pytest.raises(Locked, match="another connection holds"):
            await store.commit(seals.ensure)
        await holder.execute("ROLLBACK")
        await store.commit(seals.ensure)
        await store.aclose()
        await holder.close()
