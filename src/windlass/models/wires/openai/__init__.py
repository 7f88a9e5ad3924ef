"""OpenAI's Chat Completions and Responses APIs, and compatible servers."""
