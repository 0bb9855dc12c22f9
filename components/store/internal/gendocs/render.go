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

	"cadre.dev/core/group"
	"cadre.dev/store"
)

const head = `# Records in Consul KV

<!-- Generated from the table of records in components/store/records.go: go generate ./components/store -->

All records live below the prefix ` + "`" + store.DefaultPrefix + "`" + `. Each value is one JSON object, at most as long as the table says.
Unknown fields and data after the object are rejected, and the error names the key. Times are RFC 3339.
[By hand](#by-hand) shows a write with Consul's own tool.

| writer | component | way of writing |
|---|---|---|
| operator | the API, ` + "`cadre`" + `, Terraform, ` + "`consul kv put`" + ` | check-and-set where the tool can; the ACL policy permits these keys only |
| leader | the coordinator with the Lease | transactions that check the session of ` + "`" + store.LeaseKey + "`" + ` and the index of ` + "`" + store.TermKey + "`" + ` |
| admission | any coordinator that admits a Boot | check-and-set, in transactions that check the index of ` + "`" + store.TermKey + "`" + ` and of the Slot's policy |
| bootstrap | the first coordinator whose Consul answers | check-and-set, once, in an empty store |
| coordinator | any coordinator | check-and-set |

A transaction has at most %d operations and about %d KiB. An unchanged value keeps its modify index.
An override (pause, freeze, drain, protect, exclude) works until its deletion or its end.

## Table

| key | type | writer | KiB, at most | meaning |
|---|---|---|---|---|
`

const byHand = `## By hand

Consul listens only on the loopback of the coordinators' CVMs. On a local cloud, run ` + "`consul kv put`" + ` there,
with the cloud's ` + "`--state`" + ` and the path of the context:

` + "```" + `
cadre local exec --service coordinator demo-coordinator-0 -- consul kv put \
    -token="$(jq -r .token ~/.config/cadre/demo.json)" \
    cadre/v1/control/freeze/_all '{"reason":"we look into it","by":"ann","at":"2026-05-04T12:00:00Z"}'
` + "```" + `

On a real platform the shipped compose file of the coordinators permits no shell. There
` + "`cadre`" + ` and Terraform write the records; ` + "`control/require-approval`" + ` lacks a command.
`

func render() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, head, store.MaxTxnOps, store.MaxTxnBytes>>10)
	for _, kind := range store.Records {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %d | %s |\n",
			kind.Pattern, link(kind.Type), kind.Writer, kind.MaxBytes>>10, kind.Meaning)
	}
	b.WriteString("\n| part of a key | form |\n|---|---|\n" +
		"| `<group>`, `<slot>`, `<route>`, `<secret>` | lower-case letters, digits and `-`, from a letter, at most 63 bytes |\n" +
		"| `<id>`, `<digest>`, `<revision>` | letters, digits and `. _ : -`, at most 128 bytes; `<revision>` is a Revision or a compose hash |\n" +
		"| `<revocation>` | `instance-`, `revision-` or `key_provider-` and the id |\n" +
		"| `<scope>` | a group or `_all` |\n" +
		"| `<nonce>`, `<fmspc>`, `<hash>`, `<sha256>` | lower-case hex; 12 digits for `<fmspc>`, 64 for the last two |\n")
	b.WriteString("\n## Operators' ACL policy\n\nFor a cluster with the one group `postgres`:\n\n```hcl\n")
	b.WriteString(store.OperatorRules(store.DefaultPrefix, []string{"postgres"}))
	b.WriteString("```\n\n" + byHand + "\n## Fields\n\nA field with a * may be absent. Records of operators show the types of their fields; a field without a type is a text.\n")
	written := operatorTypes()
	for _, t := range structs() {
		var all []string
		for _, f := range reflect.VisibleFields(t) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" || !f.IsExported() {
				continue
			}
			if name == "" {
				name = f.Name
			}
			name = "`" + name + "`"
			if strings.Contains(options, "omit") {
				name += "*"
			}
			if typ := jsonType(f.Type); typ != textType && (slices.Contains(written, t) || strings.Contains(typ, "[")) {
				name += " (" + typ + ")"
			}
			all = append(all, name)
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s.\n", t, strings.Join(all, ", "))
	}
	return b.Bytes()
}

// specTypes are the spec and its parts, which have a page of their own.
var specTypes = typesOf(nil, reflect.TypeFor[group.Spec]())

// structs returns the record types in table order, each followed by the types that it uses for the
// first time, without the parts of the spec.
func structs() []reflect.Type {
	all := slices.Clone(specTypes)
	for _, kind := range store.Records {
		all = typesOf(all, kind.Type)
	}
	return all[len(specTypes):]
}

// operatorTypes are the types of the records that operators write.
func operatorTypes() []reflect.Type {
	var all []reflect.Type
	for _, kind := range store.Records {
		if kind.Writer == store.Operator {
			all = typesOf(all, kind.Type)
		}
	}
	return all
}

// typesOf appends t and the types of its fields to all, each once.
func typesOf(all []reflect.Type, t reflect.Type) []reflect.Type {
	t = element(t)
	if !isRecord(t) || slices.Contains(all, t) {
		return all
	}
	all = append(all, t)
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("json") != "-" {
			all = typesOf(all, f.Type)
		}
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

// textType is left out of the page.
const textType = "text"

func jsonType(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "time"
	case t == reflect.TypeFor[json.RawMessage]():
		return "object"
	case t.Kind() == reflect.Pointer:
		return jsonType(t.Elem())
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return t.String()
	case isRecord(t):
		return link(t)
	}
	switch t.Kind() {
	case reflect.Slice:
		return "list of " + jsonType(t.Elem())
	case reflect.Map:
		return "object of " + jsonType(t.Elem())
	case reflect.String:
		if t.PkgPath() != "" {
			return t.String()
		}
		return textType
	case reflect.Bool:
		return "bool"
	default:
		return "number"
	}
}

// link leads to the section of a record type, or to the page of the spec.
func link(t reflect.Type) string {
	to := "#" + strings.ToLower(strings.ReplaceAll(t.String(), ".", ""))
	if slices.Contains(specTypes, t) {
		to = "group-file.md"
	}
	return fmt.Sprintf("[%s](%s)", t, to)
}
