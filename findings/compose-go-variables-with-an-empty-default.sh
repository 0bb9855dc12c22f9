#!/usr/bin/env bash
# compose-go v2.9.1: template.ExtractVariables reports `${A:-}`, which has a default that is the
# empty text, and `${A}`, which has none, as the same variable: an empty default value, nothing
# that says which of the two stands there. A tool that asks it which names an operator has to
# supply asks for names that the text does not need. (A name with ":?" is told apart: Required.)
#
# Prints what the library reports of both. Exits 1 when the two reports differ, which means that
# the library tells them apart by now.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'MOD'
module finding
go 1.24
require github.com/compose-spec/compose-go/v2 v2.9.1
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/template"
)

func main() {
	seen := map[string]string{}
	for _, text := range []string{"${A:-}", "${A}", "${A:-eu}", "${A:?is required}"} {
		vars := template.ExtractVariables(map[string]any{"key": text}, template.DefaultPattern)
		seen[text] = fmt.Sprintf("%+v", vars["A"])
		fmt.Printf("%-18s %s\n", text, seen[text])
	}
	if seen["${A:-}"] != seen["${A}"] {
		fmt.Println("compose-go tells an empty default from none now")
		os.Exit(1)
	}
	if seen["${A:-eu}"] == seen["${A}"] || seen["${A:?is required}"] == seen["${A}"] {
		fmt.Println("compose-go tells no form apart any more")
		os.Exit(1)
	}
	fmt.Println("as found: an empty default and none are the same to compose-go v2.9.1")
}
GO
GOWORK=off GOFLAGS=-mod=mod go run .
