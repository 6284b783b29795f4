"""Reports: the measures of one run or of several side by side, as a page of plots, Markdown or tables.

A page is one file that opens from disk: no script, nothing from the network. Names of a cluster are text in it, never
markup.
"""
