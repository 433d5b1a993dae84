"""Changes of a file group (change data capture), from each source of changes, in each format.

Belongs here: sources of changes and output formats, one module each. Not here: merging (`merge`), the choice of files
for a change (enumerator). Images are always read unfiltered; filters apply to the finished change.
"""
