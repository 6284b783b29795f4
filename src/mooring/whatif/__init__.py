"""Questions that operators ask before they act: how many more pods fit, what a loss would do, which nodes to add.

Each question is asked of forks, with the user's own configuration and plugins. Nothing here decides: pods are placed by
the engine, one after another, as the live scheduler would place them.
"""
