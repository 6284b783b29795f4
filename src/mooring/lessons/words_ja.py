"""The course in Japanese."""

WORDS: dict[str, str] = {}
