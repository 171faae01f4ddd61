# Everything from a bare Python >= 3.11: each target makes its own environment and runs.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: figures test test-verl bench check reference clean

figures: .venv/core.made
	$(BIN)/tailmiss figures --out out

test: .venv/test.made
	$(BIN)/pytest -n 2 -q

test-verl: .venv-verl/made
	.venv-verl/bin/pytest -q tests/verl

bench: .venv/test.made
	$(BIN)/pip install -q --group bench
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -m bench tests/bench_*.py

check: .venv/core.made
	$(BIN)/tailmiss figures --check --out out

# Rewrite the committed quick tables after a deliberate change.
reference: .venv/core.made
	$(BIN)/tailmiss figures --out out/reference
	mkdir -p figures/reference/quick && cp out/reference/*.csv figures/reference/quick/

.venv/pip.made:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --upgrade pip
	touch $@

.venv/core.made: .venv/pip.made pyproject.toml
	$(BIN)/pip install -q -e .
	touch $@

.venv/test.made: .venv/pip.made pyproject.toml
	$(BIN)/pip install -q -e '.[symbolic,parquet,report,dask]' --group test
	touch $@ .venv/core.made

.venv-verl/made: pyproject.toml
	$(PYTHON) -m venv .venv-verl
	.venv-verl/bin/pip install -q --upgrade pip
	.venv-verl/bin/pip install -q torch==2.13.0 verl==0.9.1 pytest cachetools fastapi \
		uvicorn msgspec pyzmq TransferQueue -e .
	touch $@

clean:
	rm -rf .venv .venv-verl .venv-wheel out build dist *.egg-info
