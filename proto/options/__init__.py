"""The options of readers, streams and groups: names, types, texts, and how a caller's options are parsed."""
