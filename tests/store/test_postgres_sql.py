"""Question marks become Postgres's placeholders, and nothing else is touched."""

import pytest

from windlass.store.postgres.sql import read


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT ?", "SELECT $1"),
        ("INSERT INTO t VALUES (?, ?, ?)", "INSERT INTO t VALUES ($1, $2, $3)"),
        ("UPDATE t SET a = ?2 WHERE b = ?1", "UPDATE t SET a = $2 WHERE b = $1"),
        ("SELECT '?', 'it''s ?', ?", "SELECT '?', 'it''s ?', $1"),
        (r"SELECT E'\'?', ?", r"SELECT E'\'?', $1"),
        ("SELECT 'a\\', ?", "SELECT 'a\\', $1"),
        ('SELECT "a?" FROM "t""?" WHERE x = ?', 'SELECT "a?" FROM "t""?" WHERE x = $1'),
        ("SELECT ? -- why?\n, ?", "SELECT $1 -- why?\n, $2"),
        ("SELECT /* ? /* ? */ ? */ ?", "SELECT /* ? /* ? */ ? */ $1"),
        ("SELECT $$?$$, $a$ ? $$ ? $a$, ?", "SELECT $$?$$, $a$ ? $$ ? $a$, $1"),
        ("SELECT data ?? 'k', data ??| ARRAY[?]", "SELECT data ? 'k', data ?| ARRAY[$1]"),
        ("SELECT ?::int, a::text, b[1:2]", "SELECT $1::int, a::text, b[1:2]"),
        ("SELECT $1", "SELECT $1"),
        ("SELECT 1 WHERE a=?AND b=?", "SELECT 1 WHERE a=$1AND b=$2"),
        ("SELECT '?", "SELECT '?"),
    ],
)
def test_marks(sql, text):
    assert read(sql).text == text


def test_named_values():
    found = read("SELECT :a, :b, :a, ':c', x::int", True)
    assert found.text == "SELECT $1, $2, $1, ':c', x::int"
    assert found.names == ("a", "b")
    assert read("SELECT :a").text == "SELECT :a"


@pytest.mark.parametrize(
    "sql",
    [
        "COMMIT",
        "commit",
        " /* x */ rollback",
        "-- x\nBEGIN",
        "END",
        "ABORT",
        "START TRANSACTION",
        "SAVEPOINT a",
        "RELEASE a",
        "PREPARE TRANSACTION 'x'",
        "SET statement_timeout = 0",
        "RESET ALL",
        "DISCARD ALL",
        "LISTEN x",
        "VACUUM",
        "COPY t FROM '/etc/passwd'",
        "",
        "/* */",
        "DEALLOCATE ALL",
        ";COMMIT",
        "DELETE FROM windlass_rows",
        "UPDATE Windlass_Sessions SET epoch = 0",
        'INSERT INTO "windlass_inbox" VALUES (1)',
        "DROP TABLE windlass_rows",
        "TRUNCATE a, windlass_rows",
        "WITH x AS (DELETE FROM public.windlass_rows RETURNING 1) SELECT * FROM x",
        "SELECT 1 INTO windlass_x",
        "DO $$ BEGIN DELETE FROM windlass_rows; END $$",
        "CREATE RULE r AS ON INSERT TO t DO ALSO DELETE FROM windlass_rows",
        "CREATE FUNCTION f() RETURNS int AS 'DELETE FROM windlass_rows' LANGUAGE sql",
        "CREATE TRIGGER t BEFORE INSERT ON windlass_rows EXECUTE FUNCTION f()",
        "SELECT * FROM windlass_sessions FOR UPDATE",
        r'DELETE FROM U&"\0077indlass_rows"',
        "ALTER TABLE t RENAME TO windlass_t",
        "LOCK TABLE windlass_rows",
        "GRANT ALL ON windlass_rows TO x",
    ],
)
def test_what_a_body_may_not(sql):
    assert read(sql).refused is not None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM windlass_model_calls",
        "SELECT 'windlass_rows'",
        "INSERT INTO t VALUES ('windlass_rows')",
        "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
        "CREATE TABLE t (n int)",
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "(SELECT 1) UNION (SELECT 2)",
        "NOTIFY x",
        "UPDATE t SET a = 1 -- windlass_rows",
    ],
)
def test_what_a_body_may(sql):
    assert read(sql).refused is None
