# What each target does is said beside it; `make` alone lists them.
export CARGO_TARGET_DIR ?= $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/tidemill/target

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

test: ## build and run all tests
	cargo test --workspace --locked

check: ## formatting and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked

.PHONY: help test check
