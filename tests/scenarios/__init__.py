"""Transcripts of commands, and the test that plays them."""
