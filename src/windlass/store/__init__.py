"""Stores of sessions: journals and inboxes, in memory, SQLite or Postgres."""

from windlass.store.open import open_store as open_store
