#!/usr/bin/env bash
# Checks that every commit must pass. Prints one line for each part; the first failure ends the run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t modules < <(printf 'proto\nscripts\n'; dirname components/*/go.mod components/*/*/go.mod)

step() { printf 'check: %s\n' "$*"; }
die() {
	printf 'check: %s\n' "$*" >&2
	exit 1
}

step format
unformatted=$(gofmt -l "${modules[@]}")
[[ -z $unformatted ]] || die "not gofmt-ed, run make fmt: $unformatted"

step tidy
for m in "${modules[@]}"; do
	(cd "$m" && GOWORK=off go mod tidy -diff) || die "go.mod of $m is not tidy: run go mod tidy there"
done

step vet
for m in "${modules[@]}"; do (cd "$m" && go vet ./...); done

# Packages without goroutines are tested without the race detector.
step sequential
scripts/test.sh sequential || die "see above"

# The linters skip generated packages and packages without a clear need of a comment.
step package comments
for m in "${modules[@]}"; do
	silent=$(cd "$m" && go list -f '{{if not .Doc}}{{.ImportPath}}{{end}}' ./...)
	[[ -z $silent ]] || die "packages without a comment that says what they are for, add doc.go: ${silent//$'\n'/ }"
done

step arrows
go test -count=1 ./scripts/links || die "a page links to a page or section that does not exist"
go test -count=1 ./scripts/arrows || die "docs/explanation/architecture.md and the code differ about who imports whom"

# Many small changes let the packages that decide grow.
step shape
go run ./scripts/shape -exact || die "see above; docs/contributing/testing.md says what is counted, scripts/shape/doc.go how"

step generated
before=$(git status --porcelain; git diff)
make -s generate
after=$(git status --porcelain; git diff)
[[ $before == "$after" ]] || die "generated code or docs are not current: commit what make generate changed"

# Text that a person reads names its subject.
step prose
go run ./scripts/prose -examples || die "the styles of scripts/vale and scripts/prose/examples.txt differ"
go run ./scripts/prose || die "see above; docs/contributing/testing.md says how the linter is used"

step vulnerabilities
go test -count=1 ./scripts/vulnerabilities || die "docs/contributing/dependencies.md names other versions than are pinned"
go run ./scripts/vulnerabilities "${modules[@]}" || die "see above; docs/contributing/dependencies.md says what to do"

step lint
make -s lint
step ok
