# `make demo` shows check, fix and verify on a small project. `make test` runs what a person waits for (six minutes),
# `make test-all` everything else that must hold.
# All make their own environment, .venv, with the newest Python present (or PYTHON=...).

.PHONY: demo test test-all matrix soundness bench growth recall docs site release clean

demo: .venv/demo
	@.venv/bin/python scripts/demo.py

test: .venv/dev
	@sh scripts/test.sh

# The rest of the proofs, programs that are run, installed packages, other Pythons, pre-commit, a browser: 20 minutes.
test-all: .venv/dev
	@sh scripts/test.sh all

# The proofs of all rules on older and newer releases of jax and equinox, each in an environment under .matrix/.
matrix: .venv/dev
	@.venv/bin/python scripts/matrix.py

# Predicted layouts and errors beside those of jax: 20,000 generated programs on each of three releases. Hours at first.
soundness: .venv/dev
	@.venv/bin/python scripts/soundness.py

# Beside ruff, Fixit, jaxlint, semgrep and TorchFix, on 3.2 million lines of published packages; some 20 minutes.
# The pre-commit hook is measured where MIRRORS holds OWNER+NAME/repo, bare: see benchmarks/hook.py.
bench: .venv/dev
	@.venv/bin/python benchmarks/run.py $(if $(MIRRORS),--mirrors "$(MIRRORS)")

# Time and memory against lines, files, findings, the size of a file, the edges of a call graph; most of an hour.
growth: .venv/dev
	@.venv/bin/python benchmarks/growth.py

# Real mistakes of public repositories, each in its project as it was: MIRRORS holds OWNER+NAME/repo, bare. 20 minutes.
recall: .venv/dev
	@.venv/bin/python scripts/recall.py "$(MIRRORS)"

docs: .venv/dev
	@.venv/bin/python scripts/docs.py

# The documentation as a site, in build/site/html; only its search needs a server, and it asks no other host.
site: .venv/dev
	@.venv/bin/python scripts/docs_site.py

# What is published, in build/release, made twice and compared (CONTRIBUTING.md). Nothing is sent anywhere.
release: .venv/dev
	@.venv/bin/python scripts/release.py build/release

.venv/demo: pyproject.toml
	@sh scripts/environment.sh .venv demo -e '.[verify]' optax

.venv/dev: pyproject.toml
	@sh scripts/environment.sh .venv dev -e '.[dev]'

clean:
	rm -rf .venv .matrix .benchmark build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
