"""The course in Chinese."""

WORDS: dict[str, str] = {}
