"""The scratchpad: a small working memory that is recited, reorganised and cites sources."""
