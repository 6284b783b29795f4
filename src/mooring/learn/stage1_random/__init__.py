"""Lesson 1: a scheduler that picks any node."""
