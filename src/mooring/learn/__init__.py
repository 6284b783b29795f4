"""Seven small schedulers to learn from, the classroom they run in, and the checkers of their exercises.

Each stage is a folder that stands alone; stages never import each other, so that the difference between two
neighbours is the lesson.
"""
