"""Import of other tools' files, as a cluster, arriving pods, and changes over time.

One module per format. Each names what its format has and a simulation does not use. What is imported here is played by
``mooring simulate``.
"""
