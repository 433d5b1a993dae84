"""Makes the modules of this folder importable for its tests.

The simulation: seeded schedules of the enumerator's decisions with a model table, readers, a network and faults, and
what must hold in each of them. `simulated_world` puts the parts together; `checkers` says what must hold;
`python tests/simulation/replay_seed.py SEED` runs one schedule again and tells all that happened.
"""

from __future__ import annotations

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent))
