# SUDO=1 lets the set-up install missing system packages through sudo; without it the command is only printed.
export STACKMEM_SUDO ?= $(SUDO)

.PHONY: solve test campaign lint docs lock wheel release clean

solve:  ## set up what is missing, then solve tasks/calculator with its scripted model; ARGS="--json" adds flags
	@scripts/solve.sh $(ARGS)

test:  ## set up what is missing, then pass every test; ARGS="tests/core -x" narrows it
	@scripts/test.sh $(ARGS)

campaign:  ## the long campaigns: every test, with more examples, trials and races; how far each came goes into docs/experiments.md
	@STACKMEM_CAMPAIGN=1 scripts/test.sh --timeout=3600 $(ARGS); outcome=$$?; \
	.venv/bin/python -m tests.campaigns docs/experiments.md; exit $$outcome

lint:  ## style, format, types, layers
	@scripts/lint.sh

docs:  ## build the documents as a site into dist/docs, searchable from the disk; dead links fail
	@scripts/docs.sh

lock:  ## resolve the newest versions that pyproject.toml allows and write both locks
	@scripts/lock.sh

wheel:  ## build the wheel into dist/
	@scripts/wheel.sh

release:  ## make what is published into dist/, built twice and tried with every Python that is here
	@scripts/release.sh

clean:  ## forget the set-up; runs and sandboxes stay
	@rm -rf .venv node_modules dist
