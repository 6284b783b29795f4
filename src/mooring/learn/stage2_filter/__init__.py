"""Lesson 2: filter plugins."""
