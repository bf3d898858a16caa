# Every target makes its own environment first. `make` alone lists the targets.

PYTHON     ?= python3
VENV       ?= .venv
WHEELHOUSE ?= wheelhouse
FOR        ?= 3.12
PLATFORMS  ?= manylinux_2_28_x86_64 manylinux_2_17_x86_64 manylinux2014_x86_64

# Names this common may stand in anyone's environment; here they count on make's command line alone.
unenv = $(if $(filter environment,$(origin $(1))),,$($(1)))
override OUT  := $(call unenv,OUT)
override ROWS := $(call unenv,ROWS)
override ARGS := $(call unenv,ARGS)
override BASE := $(call unenv,BASE)
override HEAD := $(call unenv,HEAD)
override LAUNCHER := $(call unenv,LAUNCHER)

# The default preset: paper where a CUDA device is visible or Slurm has them, cpu elsewhere.
has_gpu = case "$${CUDA_VISIBLE_DEVICES-all}" in ''|-1) false;; *) nvidia-smi -L 2>/dev/null | grep -q '^GPU';; esac
EXPERIMENT ?= $(if $(filter slurm,$(LAUNCHER)),paper,$(shell if $(has_gpu); then echo paper; else echo cpu; fi))
given       = $(patsubst $(1)=%,%,$(lastword $(filter $(1)=%,$(ARGS))))
dry         = $(filter-out 0 false,$(DRY_RUN))
override OUT := $(or $(OUT),$(call given,out))

# VENV=system takes the interpreter's own torch and Triton, and the wheelhouse for what it lacks.
ifeq ($(VENV),system)
PY    := $(PYTHON)
READY := .system
# cutlass, which quack runs on, comes by a .pth file, and those count in an installed folder alone.
export PYTHONPATH := $(CURDIR)/.site:$(CURDIR)/.site/nvidia_cutlass_dsl/dsl_packages$(if $(PYTHONPATH),:$(PYTHONPATH))
else
PY    := $(VENV)/bin/python
READY := $(VENV)/.ready
endif

# What hydra, wandb and pydantic need and a PyTorch image lacks; WHEELS=all is everything but torch.
WHEELS ?= hydra-core omegaconf antlr4-python3-runtime nvidia-ml-py \
          pydantic pydantic-core annotated-types typing-inspection typing-extensions \
          wandb click packaging platformdirs protobuf pyyaml xxhash \
          requests certifi charset-normalizer idna urllib3 \
          cwevals anyio distro h11 httpcore httpx sniffio \
          opentelemetry-api opentelemetry-sdk opentelemetry-proto opentelemetry-semantic-conventions \
          opentelemetry-exporter-otlp-proto-http opentelemetry-exporter-otlp-proto-common \
          opentelemetry-exporter-otlp-common opentelemetry-exporter-http-transport \
          googleapis-common-protos
# EXTRA=peers adds the public kernels and EXTRA=slurm submitit; constraints.txt pins the two last,
# each under a heading of its own. EXTRA="peers slurm" adds both.
pinned     = $(shell sed -E '$(1); /^(\#|$$)/d; s/[=;].*//; /^(torch|triton|setuptools)$$/d' constraints.txt)
everything = $(call pinned,/extra peers/$(comma)$$d)
peers      = $(call pinned,1$(comma)/extra peers/d; /extra slurm/$(comma)$$d)
slurm      = $(call pinned,1$(comma)/extra slurm/d)
comma     := ,
wheels     = $(if $(filter all,$(WHEELS)),$(everything),$(WHEELS)) $(foreach extra,$(filter peers slurm,$(EXTRA)),$($(extra)))

requirements = $(PY) -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*$(1), sep="\n")'

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help peers slurm status sweep figures tables roofline claims report reference counts counters
.PHONY: compare validate reproduce selftest hostcost scale lint wheelhouse sync clean
.PHONY: test test-gpu test-browser test-faults test-slurm .system .python .always

help:  ## this list
	@echo 'usage: make TARGET [VARIABLE=value ...]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile
	@echo 'VENV=system takes the torch and Triton of PYTHON=$(PYTHON) instead of building .venv.'

# Exit status 0 and 1 mean that the sweep ran, 1 that points failed; else there is nothing to draw.
# The status is the sweep's: a sweep too small for any figure has not failed.
# LAUNCHER=slurm submits the shards as Slurm jobs and waits; what that needs is installed first.
sweep: $(READY) $(if $(filter slurm,$(LAUNCHER)),slurm)  ## measure, then draw (EXPERIMENT=paper ARGS="kernel=fused,online" OUT=dir DRY_RUN=1 LAUNCHER=slurm)
	@preset=$(EXPERIMENT); out="$(or $(OUT),outputs/$(or $(call given,name),$$preset))"; status=0; \
	$(PY) -m experiments.run experiment=$$preset "out='$$out'" $(if $(dry),dry_run=true) \
	    $(if $(LAUNCHER),hydra/launcher=$(LAUNCHER)) $(filter-out out=%,$(ARGS)) || status=$$?; \
	if [ -z "$(dry)" ] && [ $$status -le 1 ]; then \
	    $(PY) -m analysis figures --rows "$$out" || true; \
	fi; \
	exit $$status

# flag-gems asks for numpy 1.26.4 and one version of packaging, and runs with ours: hence --no-deps.
peers: $(READY)  ## add the public kernels liger, flag_gems and quack to .venv (a node: wheelhouse EXTRA=peers)
	@[ '$(VENV)' != system ] || { echo 'error: VENV=system takes them from the wheelhouse: make wheelhouse EXTRA=peers' >&2; exit 2; }
	@$(call requirements,p["optional-dependencies"]["peers"]) > $(VENV)/peers.txt
	@$(PY) -m pip install -qq --disable-pip-version-check -c constraints.txt -r $(VENV)/peers.txt
	@$(PY) -m pip install -qq --disable-pip-version-check -c constraints.txt --no-deps flag-gems

slurm: $(READY)  ## add submitit, for make sweep LAUNCHER=slurm, to .venv (VENV=system: wheelhouse EXTRA=slurm)
	@[ '$(VENV)' = system ] || $(PY) -c 'import submitit' 2>/dev/null || { \
	    $(call requirements,p["optional-dependencies"]["slurm"]) > $(VENV)/slurm.txt && \
	    $(PY) -m pip install -qq --disable-pip-version-check -c constraints.txt -r $(VENV)/slurm.txt; }

status: $(READY)  ## how a sweep on Slurm stands: queued, running, done, failed, points (OUT=dir)
	@[ -n "$(OUT)" ] || { echo 'error: status needs OUT=dir, the folder of a sweep on Slurm' >&2; exit 2; }
	@$(PY) -m experiments.slurm.status --out "$(OUT)"

figures:   ## the sources' figures, drawn from rows (ROWS=dir OUT=dir)
tables:    ## their tables, main results, traffic three ways, environment (ROWS=dir OUT=dir)
roofline:  ## share of the roof, intensity, predicted time, and the check (ROWS=dir OUT=dir)
claims:    ## every claim judged by rows, and the audit of published numbers (ROWS=dir OUT=dir)
report:    ## all of that as one HTML file (ROWS=dir OUT=dir)

# These are files that depend on rows, records and code: none is made again without need, and
# nothing here measures. A manifest, written last, stands for all that a command makes.
kinds := figures tables roofline claims report
ifneq ($(filter $(kinds),$(MAKECMDGOALS)),)
newest := $(shell find outputs -name rows.jsonl ! -path 'outputs/reference/*' ! -path '*/wandb/*' \
            -exec ls -t {} + 2>/dev/null | head -n 1 | cut -d/ -f1-2)
from   := $(or $(ROWS),$(newest),outputs/reference)
parent := $(if $(filter %.jsonl,$(from)),$(patsubst %/,%,$(dir $(from))),$(from))
beside := $(if $(filter outputs/reference,$(parent)),outputs,$(patsubst wandb:%,outputs/wandb/%,$(parent)))
code   := $(shell find analysis conf/gpu conf/grid conf/kernel -type f ! -name '*.pyc' ! -name '.*' 2>/dev/null) \
          $(wildcard experiments/data/*.py)
data   := $(shell find "$(parent)" outputs/reference/counts \
            -name '*.jsonl' -o -name variants.json 2>/dev/null)
# What make cannot see the age of is made anew: W&B's rows, names with blanks, further arguments.
anew   := $(if $(or $(word 2,$(from)$(OUT)),$(filter wandb:%,$(from)),$(ARGS)),.always)
endif

$(kinds): | $(READY)
define depends
$(1): $(if $(anew),.always,$(or $(OUT),$(beside)/$(1))/$(1).manifest.json)
	@$(if $(anew),$$(PY) -m analysis $(1) --rows "$(from)" $(if $(OUT),--out "$(OUT)") $$(ARGS),echo '$(or $(OUT),$(beside)/$(1)): made of $(from)')
$(if $(anew),,$(or $(OUT),$(beside)/$(1))/$(1).manifest.json: $(data) $(code) | $(READY)
	@$$(PY) -m analysis $(1) --rows "$(from)" $(if $(OUT),--out "$(OUT)"))
endef
$(foreach kind,$(filter $(kinds),$(MAKECMDGOALS)),$(eval $(call depends,$(kind))))

# The exit status is a gate's: not 0 where HEAD has a point that is surely slower, or ok no more.
compare: $(READY)  ## two sweeps point by point, a gate (BASE=dir HEAD=dir OUT=dir ARGS="--threshold 1%")
	@[ -n "$(BASE)" ] && [ -n "$(HEAD)" ] || { echo 'error: compare needs BASE=dir and HEAD=dir, folders of rows' >&2; exit 2; }
	@$(PY) -m analysis compare "$(BASE)" "$(HEAD)" $(if $(OUT),--out "$(OUT)") $(ARGS)

validate: $(READY)  ## can a folder of rows from someone's card be taken? (ROWS=dir; OUT=dir: copy what belongs)
	@[ -n "$(ROWS)" ] || { echo 'error: validate needs ROWS=dir, a folder of rows' >&2; exit 2; }
	@$(PY) -m analysis validate --rows "$(ROWS)" $(if $(OUT),--out "$(OUT)") $(ARGS)

reproduce: $(READY)  ## measure exactly the recorded points again, and compare (ROWS=dir OUT=dir DRY_RUN=1)
	@[ -n "$(ROWS)" ] || { echo 'error: reproduce needs ROWS=dir, a folder of rows' >&2; exit 2; }
	@$(PY) -m experiments.reproduce --rows "$(ROWS)" --out "$(or $(OUT),outputs/reproduced)" $(if $(dry),--dry-run) $(ARGS)

selftest: $(READY)  ## this card's noise floor: variants against themselves, timers, cold caches (OUT=dir)
	@out="$(or $(OUT),outputs/selftest)"; \
	$(PY) -m experiments.run experiment=selftest "out='$$out'" $(if $(dry),dry_run=true) $(ARGS) || exit; \
	[ -n "$(dry)" ] || { $(PY) -m experiments.probe --out "$$out" && $(PY) -m analysis selftest --rows "$$out"; }

limits := outputs/reference/h200_limits
recorded := outputs/reference/h200 outputs/reference/h200_exploration
cards  := outputs/reference/h200_cards
reference: $(READY)  ## make what is committed of the recorded rows again (after a change of analysis/)
	@# of these folders alone: rows of other cards beside them change nothing that is told of this one
	@rm -rf outputs/h200.recorded && mkdir -p outputs/h200.recorded && cp -r $(recorded) outputs/h200.recorded
	@for kind in $(kinds); do \
	    $(PY) -m analysis $$kind --rows outputs/h200.recorded --out outputs/reference/h200/$$kind || exit; \
	done
	@rm -rf outputs/h200.recorded
	@rm -rf outputs/selftest.packed && mkdir -p outputs/selftest.packed
	@tar xzf outputs/reference/h200/selftest/rows.tar.gz -C outputs/selftest.packed
	@$(PY) -m analysis selftest --rows outputs/selftest.packed --out outputs/reference/h200/selftest
	@rm -rf outputs/selftest.packed
	@[ ! -f $(limits)/rows.tar.gz ] || { rm -rf outputs/limits.packed && mkdir -p outputs/limits.packed && \
	    tar xzf $(limits)/rows.tar.gz -C outputs/limits.packed && \
	    for kind in 'figures --only limits,limits_ratio' 'tables --only limits,limits_summary,environment' \
	        'claims --claims analysis/own_claims.yaml'; do \
	        $(PY) -m analysis $$kind --rows outputs/limits.packed --out $(limits)/$${kind%% *} || exit; \
	    done && rm -rf outputs/limits.packed; }
	@[ ! -f $(cards)/rows.tar.gz ] || { rm -rf outputs/cards.packed && mkdir -p outputs/cards.packed && \
	    tar xzf $(cards)/rows.tar.gz -C outputs/cards.packed && \
	    for kind in figures tables; do $(PY) -m analysis $$kind --only card_to_card \
	        --rows outputs/cards.packed/together --out $(cards)/$$kind || exit; done && \
	    { $(PY) -m analysis compare outputs/cards.packed/alone outputs/cards.packed/together \
	        --out $(cards)/compare || [ $$? -eq 1 ]; } && rm -rf outputs/cards.packed; }

counts: $(READY)  ## what every variant's code requests of memory, counted without a GPU (OUT=dir)
	@$(PY) -m experiments.count --out "$(or $(OUT),outputs/reference/counts)" $(ARGS)

counters: $(READY)  ## what the card's counters saw: bytes, occupancy, pipes (needs ncu; ARGS="kernel=online" OUT=dir)
	@$(PY) -m experiments.counters experiment=counters "out=$(or $(OUT),outputs/counters)" \
	    $(if $(dry),dry_run=true) $(filter-out out=%,$(ARGS))

hostcost: $(READY)  ## host time of a call of softmax(x), layer by layer, beside torch.softmax (needs CUDA; OUT=dir)
	@$(PY) -m experiments.worker.hostcost --out "$(or $(OUT),outputs/hostcost)"

# Generated rows are no sweep of this machine: they lie elsewhere, and go when they were measured.
scale: $(READY)  ## what many rows cost to read, tabulate and draw (ROWS_COUNT="10000 100000" OUT=dir keeps them)
	@$(PY) -m analysis.scale $(if $(ROWS_COUNT),--rows $(ROWS_COUNT)) $(if $(OUT),--out "$(OUT)") $(ARGS)

test: $(READY)  ## every test that needs no GPU
	@$(PY) -c 'import xdist' 2>/dev/null && jobs='-n auto --maxprocesses 8'; \
	$(PY) -m pytest $$jobs -m 'not gpu and not browser and not faults and not slurm' $(ARGS)

test-gpu: $(READY)  ## the tests that need a CUDA device
	@$(PY) -m pytest -m gpu $(ARGS)

test-browser: $(READY)  ## the report's page in headless Chromium (CHROMIUM=path)
	@$(PY) -c 'import playwright' 2>/dev/null || { echo 'installing playwright (once; it brings no browser)'; \
	    $(PY) -m pip install -qq --disable-pip-version-check -c constraints.txt playwright; }
	@$(PY) -m pytest -m browser tests/browser $(ARGS)

test-faults: $(READY)  ## kills and damage at random, through the command line (FAULT_KILLS=100 FAULT_EXAMPLES=40)
	@FAULT_KILLS=$(or $(FAULT_KILLS),100) FAULT_EXAMPLES=$(or $(FAULT_EXAMPLES),40) \
	    $(PY) -m pytest tests/faults tests/experiments/test_kills.py tests/experiments/test_faults.py \
	    tests/experiments/test_disk.py tests/experiments/test_wandb.py $(ARGS)

test-slurm: $(READY) slurm  ## a sweep through a real Slurm of one node, started here (needs slurmctld, slurmd, munged)
	@$(PY) -m pytest -m slurm tests/slurm $(ARGS)

lint: $(READY)  ## ruff and mypy
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

sync: $(READY)  ## upload the offline W&B runs of every sweep in outputs/ (OUT=dir: of that one)
	@$(PY) -m experiments.wandb $(if $(OUT),--out "$(OUT)") $(ARGS)

wheelhouse: .python  ## wheels for a node without internet (FOR=3.12, its Python; WHEELS=all EXTRA=peers EXTRA=slurm)
	@mkdir -p $(WHEELHOUSE) && rm -f $(WHEELHOUSE)/*.whl
	@echo 'filling $(WHEELHOUSE)/ with $(words $(wheels)) wheels for Python $(FOR)'
	@# antlr4 4.9.3, which hydra needs, is published as source alone
	@$(if $(filter antlr4%,$(wheels)),$(PYTHON) -m pip wheel -qq --no-deps -c constraints.txt -w $(WHEELHOUSE) $(filter antlr4%,$(wheels)))
	@$(PYTHON) -m pip download -qq --no-deps -c constraints.txt -d $(WHEELHOUSE) \
	    --only-binary=:all: --python-version $(FOR) $(addprefix --platform ,$(PLATFORMS)) \
	    $(filter-out antlr4%,$(wheels))
	@du -sh $(WHEELHOUSE)

clean:  ## remove environments and caches; outputs/ and the wheelhouse stay
	rm -rf .venv .site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v < (3, 14) or sys.exit("$(PYTHON) is Python %d.%d; 3.11, 3.12 or 3.13 is needed: make PYTHON=python3.12" % v)'

# Dependencies alone are installed: the project runs from its checkout.
$(VENV)/.ready: pyproject.toml constraints.txt | .python
	@echo 'building $(VENV) (once, a minute or two)'
	@$(PYTHON) -m venv $(VENV)
	@$(call requirements,p["dependencies"] + p["optional-dependencies"]["dev"]) > $(VENV)/requirements.txt
	@$(PY) -m pip install -qq --disable-pip-version-check -c constraints.txt -r $(VENV)/requirements.txt || \
	    { echo 'could not install; without internet see "Nodes without internet" in README.md' >&2; exit 1; }
	@touch $@

.system: .python $(if $(wildcard $(WHEELHOUSE)/*.whl),.site/.ready)
	@$(PY) -c 'import importlib.util as u, sys; lacking = [m for m in "torch hydra omegaconf wandb pydantic pandas scipy seaborn rich sympy jinja2".split() if not u.find_spec(m)]; lacking and sys.exit("$(PYTHON) lacks " + ", ".join(lacking) + ": install them or bring a wheelhouse (make wheelhouse on a machine with internet)")'

.site/.ready: $(wildcard $(WHEELHOUSE)/*.whl)
	@echo 'unpacking $(WHEELHOUSE)/ into .site (once)'
	@rm -rf .site
	@$(PYTHON) -m pip install -qq --no-index --no-deps --target .site $^ || \
	    { echo 'these wheels are not for $(PYTHON): make wheelhouse FOR=its version' >&2; exit 1; }
	@touch $@
