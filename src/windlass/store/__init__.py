"""Where sessions live: journals and inboxes, in memory or in a SQLite file."""

from windlass.store.open import open_store as open_store
