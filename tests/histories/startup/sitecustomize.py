"""Python imports this module at the start of each process whose PYTHONPATH has this folder: the process records its
calls."""

import history_recorder

history_recorder.install()
