"""Lesson 7: event handlers that wake what an event can help."""
