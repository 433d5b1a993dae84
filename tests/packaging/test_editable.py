"""A plain editable install, as a contributor makes it: Python, type checkers and Spark find every module."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig

import pytest

from tests.packaging.test_wheel import import_all, modules_of_the_tree, run
