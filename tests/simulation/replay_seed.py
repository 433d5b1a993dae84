"""Runs one schedule again and tells what happened: `python -m tests.simulation.replay_seed SEED`."""

from __future__ import annotations

import sys

from tests.simulation.simulated_world import World, told_of

if __name__ == "__main__":
    world = World(int(sys.argv[1]))
    try:
        outcome = world.run()
    finally:
        print("\n".join(told_of(world)))
    print(outcome)
