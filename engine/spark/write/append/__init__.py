"""The writers of the format penstock, for inserts alone: `data_source_writer` of a data frame, `stream_writer` of a
stream. Their tasks write `appended_files`, through `write_server` if a server owns the timeline.

Not here: writes whose rows are distributed by file group (`penstock.engine.spark.write`).
"""
