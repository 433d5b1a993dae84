"""The generated pages of docs/reference/, one module for each page.

The description of an option, metric, error, command or message is in the code that defines it, not here.
"""
