"""Lesson 4: pre-score plugins."""
