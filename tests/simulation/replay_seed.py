"""Repeats one schedule and prints its trace: `python -m tests.simulation.replay_seed SEED`."""

from __future__ import annotations

import sys

from tests.simulation.simulated_world import World, trace_lines

if __name__ == "__main__":
    world = World(int(sys.argv[1]))
    try:
        outcome = world.run()
    finally:
        print("\n".join(trace_lines(world)))
    print(outcome)
