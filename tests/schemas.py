"""jsonschema without the grammar of internationalised addresses: to build it takes seconds, and no test looks at formats."""

from __future__ import annotations

import importlib
import sys

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
jsonschema = importlib.import_module("jsonschema")
