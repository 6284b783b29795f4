"""Lesson 5: permit plugins and binding in the background."""
