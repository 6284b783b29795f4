"""The controllers a small cluster needs, over the store in this process; each watches, decides and writes by itself."""
