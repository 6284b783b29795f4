"""Lesson 6: a scheduling queue."""
