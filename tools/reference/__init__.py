"""The pages of docs/reference/, each made from the code that it is about. One module a page; no text about a single
option, metric, error, command or message stands here, but where that is made."""
