package main

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"cadre.dev/store"
)

const head = `# Records in Consul KV

<!-- Generated from the table of records in components/store/records.go: go generate ./components/store -->

All records live below the prefix ` + "`" + store.DefaultPrefix + "`" + `. Each value is one JSON object. It is
decoded strictly: unknown fields, data after the object and values above the
size bound are rejected, and the error names the key. Times are RFC 3339.

Each record has one writer:

| writer | component | how it writes |
|---|---|---|
| operator | operators and their tools: the API, ` + "`cadre`" + `, Terraform, ` + "`consul kv put`" + ` | check-and-set where the tool can; the ACL policy lets operators write these keys and no others |
| leader | the coordinator that holds the Lease | transactions that carry the fence: check-session on ` + "`" + store.LeaseKey + "`" + ` and check-index on ` + "`" + store.TermKey + "`" + ` |
| admission | any coordinator that admits a Boot | transactions that check the index of ` + "`" + store.TermKey + "`" + ` and of the Slot's policy, with check-and-set |
| bootstrap | the first coordinator whose Consul answers | check-and-set, once, in an empty store |
| coordinator | any coordinator | check-and-set |

A transaction has at most %d operations and about %d KiB. An unchanged value keeps its
modify index.

## Table

| key | type | writer | at most | meaning |
|---|---|---|---|---|
`

const byHand = `## By hand

Consul listens only on the loopback of the coordinators' CVMs, so run ` + "`consul kv put`" + ` inside of one.
On a local cloud, use its ` + "`--state`" + ` and the context's path, as printed at its creation:

` + "```" + `
cadre local exec --service coordinator demo-coordinator-0 -- consul kv put \
    -token="$(jq -r .token ~/.config/cadre/demo.json)" \
    cadre/v1/control/freeze/_all '{"reason":"we look into it","by":"ann","at":"2026-05-04T12:00:00Z"}'
` + "```" + `

On a real platform the shipped compose file of the coordinators permits no shell: there
` + "`cadre`" + ` and Terraform write the records. ` + "`control/require-approval`" + ` has no command yet.
`

func render() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, head, store.MaxTxnOps, store.MaxTxnBytes>>10)
	for _, kind := range store.Records {
		fmt.Fprintf(&b, "| `%s` | [%s](#%s) | %s | %d KiB | %s |\n",
			kind.Pattern, kind.Type, anchor(kind.Type), kind.Writer, kind.MaxBytes>>10, kind.Meaning)
	}
	b.WriteString("\n`<group>` and `<slot>` are lower-case letters, digits and `-`, starting with a letter, at most 63 bytes. " +
		"`<id>`, `<digest>` and `<revision>` are letters, digits and `. _ : -`, at most 128 bytes. `<nonce>` is lower-case hex. " +
		"`<revision>` is a Revision or a compose hash. `<revocation>` is `instance-`, `revision-` or `key_provider-` and the id. `<scope>` is a group or `_all`. `<sha256>` is 64 lower-case hex digits.\n")
	b.WriteString("\n## Operators' ACL policy\n\nFor a cluster with the one group `postgres`:\n\n```hcl\n")
	b.WriteString(store.OperatorRules(store.DefaultPrefix, []string{"postgres"}))
	b.WriteString("```\n\n" + byHand + "\n## Fields\n\nA field marked * may be left out.\n")
	for _, t := range structs() {
		fmt.Fprintf(&b, "\n### %s\n\n| field | JSON |\n|---|---|\n", t)
		for _, f := range reflect.VisibleFields(t) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" || !f.IsExported() {
				continue
			}
			if name == "" {
				name = f.Name
			}
			optional := ""
			if strings.Contains(options, "omit") {
				optional = "*"
			}
			fmt.Fprintf(&b, "| `%s`%s | %s |\n", name, optional, jsonType(f.Type))
		}
	}
	return b.Bytes()
}

// structs returns the record types in table order, each followed by the types that it uses for the
// first time.
func structs() []reflect.Type {
	var all []reflect.Type
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		t = element(t)
		if !isRecord(t) || slices.Contains(all, t) {
			return
		}
		all = append(all, t)
		for _, f := range reflect.VisibleFields(t) {
			if f.Tag.Get("json") != "-" {
				visit(f.Type)
			}
		}
	}
	for _, kind := range store.Records {
		visit(kind.Type)
	}
	return all
}

func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

func isRecord(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

func jsonType(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "time"
	case t == reflect.TypeFor[json.RawMessage]():
		return "object"
	case t.Kind() == reflect.Pointer:
		return jsonType(t.Elem())
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return fmt.Sprintf("text (%s)", t)
	case isRecord(t):
		return fmt.Sprintf("[%s](#%s)", t, anchor(t))
	}
	switch t.Kind() {
	case reflect.Slice:
		return "list of " + jsonType(t.Elem())
	case reflect.Map:
		return "object of " + jsonType(t.Elem())
	case reflect.String:
		if t.PkgPath() != "" {
			return fmt.Sprintf("text (%s)", t)
		}
		return "text"
	case reflect.Bool:
		return "true or false"
	default:
		return "number"
	}
}

// anchor is the link that Markdown viewers give to a heading.
func anchor(t reflect.Type) string {
	return strings.ToLower(strings.ReplaceAll(t.String(), ".", ""))
}
