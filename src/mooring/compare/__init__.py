"""Two schedulers compared: the same pods under both, who goes elsewhere, and which plugin is the reason.

Each side places pods on a fork of its own. Here are the walk through the pods, the reasons, and how they are shown.
Reading files and options is not done here.
"""
