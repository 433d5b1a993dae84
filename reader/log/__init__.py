"""Log files: blocks, the records that count, their winners, and damage.

Belongs here: which blocks are part of the result, decoding them, and the two passes that find the winners. Not here:
which record wins (`merge`), the layout of a block (`penstock.table.log`).
"""
