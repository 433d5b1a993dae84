"""Changes of a file group (change data capture), from whatever tells them, in either format.

May be added: another source of changes (one file each), another format. Not here: merging (`penstock.reader`), which
files a change needs (enumerator). Images are always read unfiltered; filters see the finished change.
"""
