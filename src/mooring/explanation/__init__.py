"""Why a pod goes where it goes, or nowhere, and what would help; and how that looks in print.

Nothing here decides, and nothing here knows a rule: the engine is asked, plugins name facts and remedies. The package
is not called ``explain`` because that is a function of the front door, ``mooring.explain``.
"""
