"""Lesson 3: score plugins."""
