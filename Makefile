# The two that matter: `make rehearse` does the collection's main job on this machine, `make test` is the gate.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export ANSIBLE_COLLECTIONS_PATH := $(CURDIR)/.build/collections
export ANSIBLE_HOME := $(CURDIR)/.build/ansible-home
# Slow downloads and images; a fresh machine fills it by itself, another checkout on the machine shares it.
export GPUFLEET_CACHE ?= $(HOME)/.cache/gpufleet-sglang

BUILD := .build
VENV := $(BUILD)/venv
OLDEST := $(BUILD)/venv-oldest
RESULTS := $(BUILD)/results
COLLECTION := $(BUILD)/collections/ansible_collections/gpufleet/sglang
PYTEST = cd $(COLLECTION) && PYTHONPATH=$(CURDIR)/$(BUILD)/collections $(CURDIR)/$(VENV)/bin/python -m pytest -p no:cacheprovider
# The interpreter of a virtual environment, as ansible-test names it.
VERSION := import sys; print('%d.%d' % sys.version_info[:2])
JUNIT = --junit-xml=$(CURDIR)/$(RESULTS)/$@.xml
# What asks the same of the same files on every ansible-core, and strictest on the newest.
SAME_ON_EVERY_CORE := pep8 pylint shellcheck yamllint

# All unit tests but those of the pure core, which knows no ansible-core: these run on the oldest Python only, and on the
# newest conformance and campaign take the core through its paces.
ON_THE_NEWEST := $(filter-out tests/unit/plugins/ tests/unit/plugins/module_utils/ %/__pycache__/ %/fixtures/,$(wildcard tests/unit/*/ tests/unit/plugins/*/))

.PHONY: help
help: ## what each target does
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: setup
setup: ## system packages and the development environment under .build
	@tools/system-packages
	mkdir -p $(RESULTS) $(dir $(COLLECTION))
	# Others may look through the link at this moment, so that it is left alone where it is right.
	[ "$$(readlink $(COLLECTION) || :)" = $(CURDIR) ] || ln -sfn $(CURDIR) $(COLLECTION)
	tools/make-venv $(VENV) "$$(tools/python-for newest)"

$(OLDEST)/.stamp: tools/requirements.txt
	tools/make-venv $(OLDEST) "$$(tools/python-for oldest)"
	touch $@

.PHONY: rehearse
rehearse: setup ## from nothing to a served, verified SGLang node on this machine
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
	rehearsal/up
	ansible-playbook gpufleet.sglang.site -i inventories/rehearsal $(ARGS)

.PHONY: rehearse-down
rehearse-down: ## removes the rehearsal's node
	rehearsal/down

.PHONY: test
test: setup ## the gate: everything that protects a change
	@$(VENV)/bin/python tools/gate

.PHONY: lint
lint: ## ansible-lint (production), yamllint, ruff, mypy, shellcheck
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
	ruff check --quiet .
	ruff format --check --quiet .
	yamllint --strict .
	git ls-files --cached --others --exclude-standard | while IFS= read -r file; do
	  [ -f "$$file" ] && head -n 1 "$$file" | grep -qaE '^#!.*\b(ba)?sh\b' && echo "$$file" || true
	done | xargs --no-run-if-empty shellcheck
	tools/check-arguments
	(cd $(BUILD)/collections && mypy --config-file $(CURDIR)/pyproject.toml $(addprefix -p ansible_collections.gpufleet.sglang.,plugins rehearsal tests tools))
	# ansible-lint leaves a copy of the collection in its home, would judge by an old one, and plays run meanwhile.
	export ANSIBLE_HOME=$(CURDIR)/$(BUILD)/ansible-home-lint
	rm -rf "$$ANSIBLE_HOME/collections/ansible_collections/gpufleet"
	ansible-lint --offline --strict --profile production

.PHONY: sanity
sanity: ## ansible-test sanity on the newest ansible-core
	tools/ansible-test $(VENV) sanity --venv --python default

.PHONY: sanity-oldest
sanity-oldest: $(OLDEST)/.stamp ## the same on the oldest supported one, but for what does not depend on it
	tools/ansible-test $(OLDEST) sanity --venv --python "$$($(OLDEST)/bin/python -c "$(VERSION)")" \
	  $(addprefix --skip-test ,$(SAME_ON_EVERY_CORE))

.PHONY: unit
unit: ## unit tests, under plain pytest: quick and by ARGS; the gate runs units instead
	$(PYTEST) -q $(JUNIT) tests/unit $(ARGS)

.PHONY: units
units: ## unit tests of what ansible-core calls, as ansible-test runs them, newest ansible-core
	GPUFLEET_JUNIT=$(CURDIR)/$(RESULTS)/$@ tools/ansible-test $(VENV) units --venv --python "$$($(VENV)/bin/python -c "$(VERSION)")" $(ON_THE_NEWEST)

.PHONY: units-oldest
units-oldest: $(OLDEST)/.stamp ## all unit tests on the oldest supported one, in one process: a fork for each costs four times as much
	$(subst $(VENV),$(OLDEST),$(PYTEST)) -q $(JUNIT) tests/unit $(ARGS)

.PHONY: conformance
conformance: ## planner, grammar and probe against recorded machines and starts, where those are to be had
	$(PYTEST) -q $(JUNIT) tests/conformance $(ARGS)

.PHONY: molecule
molecule: setup ## each role's scenario on real booted hosts: converge, idempotence, verify; SCENARIO=one
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
	$(VENV)/bin/python tools/run-scenarios $(RESULTS)/$@.xml $(SCENARIO)

.PHONY: molecule-rehearsal
molecule-rehearsal: setup ## of these the one on the node of `make rehearse`
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
	$(VENV)/bin/python tools/run-scenarios $(RESULTS)/$@.xml rehearsal

.PHONY: molecule-roles
molecule-roles: setup ## all others, on hosts of their own
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
	$(VENV)/bin/python tools/run-scenarios $(RESULTS)/$@.xml \
	  $(filter-out rehearsal,$(notdir $(patsubst %/molecule.yml,%,$(wildcard molecule/*/molecule.yml))))

.PHONY: acceptance
acceptance: setup ## the rehearsal with its interruptions, faults and wrong inputs, and all else on real nodes
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
	$(PYTEST) -v $(JUNIT) tests/integration $(ARGS)

.PHONY: acceptance-rehearsal
acceptance-rehearsal: setup ## of it what plays on the node of `make rehearse`
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
	$(PYTEST) -v $(JUNIT) --durations=25 $$(tools/integration-tests rehearsal) $(ARGS)

.PHONY: acceptance-nodes
acceptance-nodes: setup ## of it what has nodes of its own, or none
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
	$(PYTEST) -v $(JUNIT) --durations=25 $$(tools/integration-tests others) $(ARGS)

.PHONY: campaign
campaign: setup ## long seeded runs; `make test` holds a small slice of each
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
	($(PYTEST) -q $(JUNIT) tests/campaign --rounds=$(or $(ROUNDS),200) --seed=$(or $(SEED),1) $(ARGS))
	# The gate, which says how many rounds it wants, starts a few of the real models itself.
	[ -z "$(ROUNDS)$(ARGS)" ] || exit 0
	export GPUFLEET_EVERY_FAMILY=1
	$(PYTEST) -q tests/integration/test_server_families.py

.PHONY: refusals
refusals: setup ## every refusal with its scenario and the message that it shows
	PYTHONPATH=$(CURDIR)/$(BUILD)/collections PATH="$(CURDIR)/$(VENV)/bin:$$PATH" tools/refusals-shown

.PHONY: bench
bench: setup ## counts and ratios: what a survey of a large node costs, how many plans a second; PART=startup: a wait; PART=rerun: a run that changes nothing
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
	cd $(COLLECTION)
	for part in $(or $(PART),probe plans log_lines eta validate); do
	  PYTHONPATH=$(CURDIR)/$(BUILD)/collections $(CURDIR)/$(VENV)/bin/python tests/benchmarks/$$part.py $(ARGS)
	done

.PHONY: docs
docs: ## plugin documentation, changelog, and the pages that are written by the code against it
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
	antsibull-changelog lint
	PYTHONPATH=$(CURDIR)/$(BUILD)/collections tools/describe-problems --check
	PYTHONPATH=$(CURDIR)/$(BUILD)/collections tools/describe-failures --check
	PYTHONPATH=$(CURDIR)/$(BUILD)/collections tools/describe-alerts --check
	PYTHONPATH=$(CURDIR)/$(BUILD)/collections tools/describe-roles --check
	cd $(COLLECTION) && antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs all .

.PHONY: pictures
pictures: setup ## draws the pictures of the guides anew
	PYTHONPATH=$(CURDIR)/$(BUILD)/collections PATH="$(CURDIR)/$(VENV)/bin:$$PATH" tools/draw-pictures

.PHONY: format
format: ## formats the Python files
	$(VENV)/bin/ruff format . && $(VENV)/bin/ruff check --fix-only .

.PHONY: clean
clean: ## removes what the targets made, the node included, but for the shared cache
	[ ! -d $(VENV) ] || rehearsal/down
	rm -rf $(BUILD) tests/output
