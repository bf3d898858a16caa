# Every target makes its own environment first. `make` alone lists the targets.
PYTHON     ?= python3
VENV       ?= .venv
WHEELHOUSE ?= wheelhouse
FOR        ?= 3.12
# Names this common may stand in anyone's environment, so they count on make's command line alone.
# Their text is never expanded; folders reach the shell as variables of its own, never as source.
given = $(if $(filter environment,$(origin $(1))),,$(value $(1)))
override OUT  := $(call given,OUT)
override ROWS := $(call given,ROWS)
override BASE := $(call given,BASE)
override HEAD := $(call given,HEAD)
override ARGS := $(call given,ARGS)
override LAUNCHER := $(call given,LAUNCHER)
export OUT ROWS BASE HEAD
# A misspelled variable would count for nothing. What a program reads from the environment stands before make.
variables = PYTHON VENV WHEELHOUSE FOR EXTRA OUT ROWS BASE HEAD ARGS LAUNCHER EXPERIMENT DRY_RUN NAME PY READY \
    FAULT_KILLS FAULT_EXAMPLES CHROMIUM SLURMCTLD MAKEFLAGS SHELL
typed     = $(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name)))
$(foreach name,$(filter-out $(variables),$(typed)),$(error make knows no variable $(name); there are $(wordlist \
    1,13,$(variables)); one of the environment is written before make: $(name)=… make))
# The default preset: paper where a CUDA device is visible or Slurm has them, cpu elsewhere.
has_gpu = case "$${CUDA_VISIBLE_DEVICES-all}" in ''|-1) false;; *) nvidia-smi -L 2>/dev/null | grep -q '^GPU';; esac
EXPERIMENT ?= $(if $(filter slurm,$(LAUNCHER)),paper,$(shell if $(has_gpu); then echo paper; else echo cpu; fi))
# The tour has shapes for a card, and others for none.
ifeq ($(EXPERIMENT),tour)
override EXPERIMENT := $(if $(filter slurm,$(LAUNCHER)),tour,$(shell if $(has_gpu); then echo tour; else echo tour_cpu; fi))
endif
in_args = $(patsubst $(1)=%,%,$(lastword $(filter $(1)=%,$(ARGS))))
override OUT := $(or $(OUT),$(call in_args,out))
NAME = $(or $(call in_args,name),$(notdir $(EXPERIMENT)))
dry    := $(filter-out 0 false,$(DRY_RUN))
words   = $(if $(dry),dry_run=true) $(if $(LAUNCHER),hydra/launcher=$(LAUNCHER)) $(filter-out out=%,$(ARGS))
# Hydra's grammar reads out='…': what would end it is refused.
plain = @case "$$OUT" in *[\'\\\$$]*) echo "error: OUT=$$OUT; name a folder without a quote, a backslash and a dollar" >&2; exit 2;; esac
needs = @[ -n "$$$(1)" ] || { echo 'error: $@ needs $(1)=dir, $(2)' >&2; exit 2; }
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
environment = $(PYTHON) -m experiments.environment
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
targets = help peers slurm sweep figures tables roofline claims report reference counts counters compare validate \
    contribute reproduce selftest docs lint wheelhouse sync clean test test-gpu test-browser test-faults test-ptx \
    test-slurm
.PHONY: $(targets) .system .python
# make would run the targets before an unknown word, and refuse the word at the end.
$(foreach goal,$(filter-out $(targets) .system .python %/.ready,$(MAKECMDGOALS)),$(error make knows no target $(goal); \
    make alone lists them, EXPERIMENT=name chooses a preset, and a value with a space is quoted))
help:  ## install: this list
	@awk -F ' *## ' 'BEGIN { n = split("measure draw test install", groups, " "); print "usage: make TARGET [VARIABLE=value ...]" } \
	    /^[a-z-]+:.* ## / { split($$1, target, ":"); split($$2, group, ": "); text = substr($$2, length(group[1]) + 3); \
	        lines[group[1]] = lines[group[1]] sprintf("  %-12s %s\n", target[1], text) } \
	    END { for (i = 1; i <= n; i++) printf "\n%s\n%s", groups[i], lines[groups[i]] }' Makefile
	@printf '\n%s\n%s\n%s\n' 'ROWS=dir what to read; OUT=dir where to write; ARGS="..." passed on as it is;' \
	    'DRY_RUN=1 what would be measured, in minutes; LAUNCHER=slurm on a cluster;' \
	    'VENV=system the torch of PYTHON=$(PYTHON), instead of building .venv.'
# Status 0 and 1 mean that the sweep ran, 1 that points failed; else there is nothing to draw.
# The status is the sweep's: a sweep too small for any figure has not failed.
sweep: $(READY) $(if $(filter slurm,$(LAUNCHER)),slurm)  ## measure: measure, then draw (EXPERIMENT=paper ARGS="kernel=fused,online")
	$(plain)
	@out="$${OUT:-outputs/$(NAME)}"; status=0; \
	$(PY) -m experiments.run experiment=$(EXPERIMENT) "out='$$out'" $(words) || status=$$?; \
	[ -n "$(dry)" ] || [ $$status -gt 1 ] || $(PY) -m analysis figures --rows "$$out" || true; \
	exit $$status
peers: $(READY)  ## install: public kernels: liger flag_gems quack helion fla trl flash-attn
	@$(environment) build $(VENV) peers
slurm: $(READY)  ## install: submitit, for make sweep LAUNCHER=slurm
	@[ '$(VENV)' = system ] || $(PY) -c 'import submitit' 2>/dev/null || $(environment) build $(VENV) slurm
# Each reads rows and never measures; without ROWS, the recorded ones.
figures:   ## draw: the sources' figures
tables:    ## draw: their tables, operations, main results, limits, kernels, traffic
roofline:  ## draw: shares of the roof, and how many times traffic explains
claims:    ## draw: every claim judged, and the published numbers audited
report:    ## draw: all of that as one HTML page
figures tables roofline claims report: $(READY)
	@$(PY) -m analysis $@ $(if $(ROWS),--rows "$$ROWS") $(if $(OUT),--out "$$OUT") $(ARGS)
compare: $(READY)  ## draw: two sweeps point by point, a gate (BASE=dir HEAD=dir)
	$(call needs,BASE,and HEAD=dir: folders of rows)
	$(call needs,HEAD,and BASE=dir: folders of rows)
	@$(PY) -m analysis compare "$$BASE" "$$HEAD" $(if $(OUT),--out "$$OUT") $(ARGS)
validate: $(READY)  ## draw: can rows from someone's card be taken? (OUT=dir keeps them)
	$(call needs,ROWS,a folder of rows)
	@$(PY) -m analysis validate --rows "$$ROWS" $(if $(OUT),--out "$$OUT") $(ARGS)
contribute: $(READY)  ## measure: your card's rows for a pull request (OUT=outputs/rtx_4090)
	$(call needs,OUT,the folder named after your card)
	$(plain)
	@kept="outputs/reference/$$(basename "$$OUT")/$(NAME)"; \
	[ -n "$(dry)" ] || [ ! -e "$$kept" ] || { echo "error: $$kept is there already; take another OUT" >&2; exit 2; }; \
	[ -z "$$(git status --porcelain -- kernels experiments conf)" ] || \
	    { echo 'error: kernels/, experiments/ or conf/ differ from the commit; commit or undo that' >&2; exit 2; }; \
	$(PY) -m experiments.run experiment=$(EXPERIMENT) "out='$$OUT'" $(words) || [ $$? = 1 ] || exit; \
	[ -z "$(dry)" ] || exit 0; \
	$(PY) -m analysis validate --rows "$$OUT" --out "$$kept" || exit; \
	printf '%s\n' "" "git add '$$kept'" "git commit -m 'Rows of $$(basename "$$OUT"), preset $(NAME)'"
reproduce: $(READY)  ## measure: exactly the recorded points again, and compare (ROWS=dir)
	$(call needs,ROWS,a folder of rows)
	@$(PY) -m experiments.reproduce --rows "$$ROWS" --out "$${OUT:-outputs/reproduced}" $(if $(dry),--dry-run) $(ARGS)
selftest: $(READY)  ## measure: this card's noise floor: A/A, timers
	$(plain)
	@out="$${OUT:-outputs/selftest}"; \
	$(PY) -m experiments.run experiment=selftest "out='$$out'" $(words) || exit; \
	[ -n "$(dry)" ] || $(PY) -m analysis selftest --rows "$$out"
reference: $(READY)  ## draw: the recorded rows again, and compare with docs/generated
	@$(PY) -m docs.reference $(ARGS)
docs: $(READY)  ## draw: the tables that README.md and docs/ include, and the site
	@$(PY) -c 'import material' 2>/dev/null || $(environment) build $(VENV) docs
	@$(PY) -m docs.reference --write
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build
counts: $(READY)  ## measure: what each variant's code requests of memory; needs no GPU
	@$(PY) -m experiments.count --out "$${OUT:-outputs/reference/counts}" $(ARGS)
counters: $(READY)  ## measure: what the card's counters saw; needs ncu
	$(plain)
	@$(PY) -m experiments.counters experiment=counters "out='$${OUT:-outputs/counters}'" $(words)
test: $(READY)  ## test: most tests; no GPU, no browser
	@$(PY) -c 'import xdist' 2>/dev/null && jobs='-n auto --maxprocesses 8 --dist worksteal'; \
	$(PY) -m pytest $$jobs -m 'not gpu and not browser and not faults and not ptx and not slurm' $(ARGS)
test-gpu: $(READY)  ## test: what needs a CUDA device
	@$(PY) -m pytest -m gpu $(ARGS)
test-browser: $(READY)  ## test: the report in headless Chromium (CHROMIUM=path)
	@$(PY) -c 'import playwright' 2>/dev/null || $(environment) build $(VENV) browser
	@$(PY) -m pytest -m browser tests/browser $(ARGS)
test-faults: $(READY)  ## test: kills and damage at random (FAULT_KILLS=100 FAULT_EXAMPLES=40)
	@FAULT_KILLS=$(or $(FAULT_KILLS),100) FAULT_EXAMPLES=$(or $(FAULT_EXAMPLES),40) $(PY) -m pytest tests/faults \
	    tests/experiments/test_faults.py tests/experiments/test_wandb.py $(ARGS)
test-ptx: $(READY)  ## test: the code that Triton compiles for an H200; needs no GPU
	@TRITON_INTERPRET=0 $(PY) -m pytest -m ptx tests/kernels $(ARGS)
test-slurm: $(READY) slurm  ## test: a sweep through a Slurm of one node, which is started here
	@$(PY) -m pytest -m slurm tests/slurm $(ARGS)
lint: $(READY)  ## test: ruff and mypy
	@$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m mypy
sync: $(READY)  ## measure: upload the offline W&B runs of outputs/, or of OUT=dir
	@$(PY) -m experiments.wandb $(if $(OUT),--out "$$OUT") $(ARGS)
wheelhouse: .python  ## install: wheels for a node without internet (FOR=3.12 EXTRA=peers)
	@echo "filling $(WHEELHOUSE)/ with wheels for Python $(FOR)"; rm -f $(WHEELHOUSE)/*.whl
	@$(environment) wheelhouse $(WHEELHOUSE) $(FOR) $(EXTRA)
clean:  ## install: remove environments and caches; outputs/ stays
	rm -rf .venv .site build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
.python:
	@$(environment) check
# Dependencies alone are installed: the project runs from its checkout.
$(VENV)/.ready: pyproject.toml constraints.txt | .python
	@echo "building $(VENV) (once, a minute or two)"; $(PYTHON) -m venv $(VENV)
	@$(environment) build $(VENV)
	@touch $@
wheels = $(wildcard $(WHEELHOUSE)/*.whl)
.site/.ready: $(wheels) | .python
	@echo "unpacking $(WHEELHOUSE)/ into .site (once)"; rm -rf .site
	@$(PYTHON) -m pip install -qq --no-index --no-deps --target .site $^ || \
	    { echo "error: wheels not for $(PYTHON): make wheelhouse FOR=its version" >&2; exit 1; }
	@touch $@
.system: .python $(if $(wheels),.site/.ready)
	@$(environment) system $(PYTHON)
