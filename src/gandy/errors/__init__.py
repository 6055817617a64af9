"""Every error that Gandy raises, with typed fields and a message that names the remedy.

Define a new error in the module of the part that raises it: every class of these modules is exported here.
"""

from __future__ import annotations

from gandy.errors.app import *
from gandy.errors.base import GandyError as GandyError
from gandy.errors.database import *
from gandy.errors.jobs import *
from gandy.errors.lifecycle import *
from gandy.errors.train import *
from gandy.errors.web import *
