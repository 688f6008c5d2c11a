# SUDO=1 lets the set-up install missing system packages through sudo. Without it, the command is only printed.
export STACKMEM_SUDO ?= $(SUDO)

.PHONY: solve install test campaign lint docs lock wheel release clean

solve:  ## set up if needed, then solve tasks/calculator with its scripted model; ARGS="--json" adds flags
	@scripts/solve.sh $(ARGS)

install:  ## set up if needed, install the everyday extras, link stackmem into ~/.local/bin; BIN=DIR changes the folder
	@BIN="$(BIN)" scripts/install.sh

test:  ## set up if needed, then run all tests; ARGS="tests/core -x" selects some
	@scripts/test.sh $(ARGS)

campaign:  ## run all tests with more examples, trials and races, and write their extent to docs/experiments.md
	@STACKMEM_CAMPAIGN=1 scripts/test.sh --timeout=3600 $(ARGS); outcome=$$?; \
	.venv/bin/python -m tests.campaigns docs/experiments.md; exit $$outcome

lint:  ## check style, format, types and layers
	@scripts/lint.sh

docs:  ## build the documents as a site in dist/docs, searchable from disk; dead links fail
	@scripts/docs.sh

lock:  ## resolve the newest versions that pyproject.toml allows and write the locks
	@scripts/lock.sh

wheel:  ## build the wheel in dist/
	@scripts/wheel.sh

release:  ## build the release artifacts in dist/, twice, and test them with every installed Python
	@scripts/release.sh

clean:  ## remove the set-up; runs and sandboxes stay
	@rm -rf .venv node_modules dist
