"""Why a pod goes where it goes, or nowhere, and what would help; and how that looks in print.

Nothing here decides, and nothing here knows a rule: a session is asked, plugins name facts and remedies.
"""
