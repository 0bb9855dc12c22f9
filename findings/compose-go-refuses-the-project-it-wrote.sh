#!/usr/bin/env bash
# compose-go v2.16.2 (v2.9.1 too): MarshalYAML, the text behind "docker compose config", can write a project that the
# same library refuses. A service may depend on one of a profile that is not active, with `required: false`. The project
# then loses the other service and keeps the dependency, and a load of the written text ends with "depends on undefined
# service". In the second text the name is unknown, where the first load knew it as switched off; `required: false`, by
# the Compose Specification a mere warning, does not help. So a rendered file is no safe input for a second tool.
# Way out: remove such dependencies from the rendered text, or render with all profiles.
#
# Loads a valid file, writes the project to a second file, and loads the second file. Exits 1 when the second load works.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >compose.yaml <<'YAML'
name: shop
services:
  web:
    image: web
    depends_on:
      debugger:
        condition: service_started
        required: false
  debugger:
    image: debugger
    profiles: [debug]
YAML
cat >go.mod <<'MOD'
module finding
go 1.25
require github.com/compose-spec/compose-go/v2 v2.16.2
MOD
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func load(file string) ([]byte, error) {
	options, err := cli.NewProjectOptions([]string{file})
	if err != nil {
		return nil, err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return nil, err
	}
	return project.MarshalYAML()
}

func main() {
	text, err := load("compose.yaml")
	if err == nil {
		err = os.WriteFile("written.yaml", text, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Printf("written:\n%s", text)
	if _, err = load("written.yaml"); err == nil {
		fmt.Println("loaded again: that has changed")
		os.Exit(1)
	}
	fmt.Println("loaded again:", err)
	fmt.Println("as found with compose-go v2.16.2")
}
GO
export GOWORK=off GOFLAGS=-mod=mod CGO_ENABLED=0
go mod tidy 2>/dev/null
go build -o finding .
./finding
