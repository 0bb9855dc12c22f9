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

A [backup](../guides/control.md#backups) contains a record if the column says yes.

| key | type | writer | KiB, at most | backup | meaning |
|---|---|---|---|---|---|
`

const byHand = `## By hand

Consul's own tools read and write the records at the operators' API, with an operator's token:

` + "```" + `
export CADRE=~/.config/cadre/demo.json
jq -r .ca_pem $CADRE > ca.pem
export CONSUL_CACERT=ca.pem CONSUL_HTTP_TOKEN="$(jq -r .token $CADRE)"
export CONSUL_HTTP_ADDR="https://$(jq -r '.coordinator_app_id + "-7444s." + .gateway.domain' $CADRE)"

consul kv get -detailed cadre/v1/groups/postgres/spec
consul kv put -cas -modify-index=1234 cadre/v1/groups/postgres/spec @spec.json
consul kv put -cas -modify-index=0 cadre/v1/control/freeze/_all '{"reason":"we look into it","by":"ann","at":"2026-05-04T12:00:00Z"}'
consul kv delete -cas -modify-index=1240 cadre/v1/control/freeze/_all
` + "```" + `

On a local cloud the gateway has another address. Set ` + "`CONSUL_HTTP_ADDR`" + ` to ` + "`https://`" + ` and ` + "`.gateway.address`" + ` there, and
` + "`CONSUL_TLS_SERVER_NAME`" + ` to the name above.

| request | answer |
|---|---|
| ` + "`GET /v1/kv/" + store.DefaultPrefix + "…`" + ` | Consul's, also with ` + "`recurse`, `keys`, `separator`, `raw`, `consistent`, `stale`, `index` and `wait`" + `; a wait lasts at most five minutes, 32 at once |
| ` + "`PUT`, `DELETE`" + ` with ` + "`cas=INDEX`" + ` | Consul's; ` + "`cas=0`" + ` creates. The record must be in the table, and at most as long as the table says |
| ` + "`PUT`" + ` of a spec without ` + "`cas`" + ` | the coordinator reads the index and writes with it: Terraform's ` + "`consul_keys`" + ` sends no ` + "`cas`" + `. A change at the same moment gives 409 |
| other writes without ` + "`cas`" + `, other keys, paths and parameters | refused, with the reason |

A coordinator also adds the rule for a new group's spec, if the token covers all groups.
` + "`cadre_group`" + ` of Cadre's own provider waits for the rollout; ` + "`consul_keys`" + ` does not:

` + "```hcl" + `
provider "consul" {
  address = "demo-7444s.gw.example.org:443" # CONSUL_HTTP_TOKEN has the token
  scheme  = "https"
  ca_file = "ca.pem"
}

resource "consul_keys" "postgres" {
  key {
    path  = "cadre/v1/groups/postgres/spec"
    value = file("spec.json")
  }
}
` + "```" + `
`

func render() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, head, store.MaxTxnOps, store.MaxTxnBytes>>10)
	for _, kind := range store.Records {
		backup := "yes"
		if !kind.InBackup() {
			backup = "no: " + kind.WhyNoBackup()
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %d | %s | %s |\n",
			kind.Pattern, link(kind.Type), kind.Writer, kind.MaxBytes>>10, backup, kind.Meaning)
	}
	b.WriteString("\n| part of a key | form |\n|---|---|\n" +
		"| `<group>`, `<slot>`, `<route>`, `<secret>`, `<operator>`, `<deployment>` | lower-case letters, digits and `-`, from a letter, at most 63 bytes |\n" +
		"| `<id>`, `<digest>`, `<revision>` | letters, digits and `. _ : -`, at most 128 bytes; `<revision>` is a Revision or a compose hash |\n" +
		"| `<revocation>` | `instance-`, `revision-` or `key_provider-` and the id |\n" +
		"| `<scope>` | a group or `_all` |\n" +
		"| `<nonce>`, `<fmspc>`, `<hash>`, `<sha256>` | lower-case hex; 12 digits for `<fmspc>`, 64 for the last two |\n")
	roles(&b)
	b.WriteString("\n" + byHand + "\n## Fields\n\nA field with a * may be absent. Records of operators show the types of their fields; a field without a type is a text.\n")
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

// roles writes which role may write each record of operators, and the policies of an example.
func roles(b *bytes.Buffer) {
	b.WriteString("\n## Roles of operators\n\nEvery role reads all records. A role writes these records and no others:\n\n" +
		"| record | view | operate | approve | admin | for the groups of an operator |\n|---|---|---|---|---|---|\n")
	for _, kind := range store.Records {
		if kind.Writer != store.Operator {
			continue
		}
		fmt.Fprintf(b, "| `%s` |", kind.Pattern)
		for _, role := range store.Roles {
			mark := ""
			if role.MayWrite(kind) {
				mark = "yes"
			}
			fmt.Fprintf(b, " %s |", mark)
		}
		scope := ""
		if store.RoleOperate.MayWrite(kind) {
			scope = scopes[variable(kind.Pattern)]
		}
		fmt.Fprintf(b, " %s |\n", scope)
	}
	b.WriteString("\nThe right to write `control/logs/<group>` is the right to read logs, and `control/run/<group>` the right to run declared commands:\n" +
		"`operate` and `admin` have them. The right to write `control/coordinators` is the right to upgrade and replace coordinators: `admin` has it.\n" +
		"These keys have no record.\n")
	b.WriteString("\n`operate` lacks the records whose deletion would loosen admission, because Consul's rules treat a deletion as a write.\n" +
		"These are the ACL policies that the coordinators write, for a cluster with the groups `postgres` and `postgres-b`:\n")
	groups := []string{"postgres", "postgres-b"}
	for _, one := range []struct {
		title  string
		role   store.Role
		groups []string
	}{
		{"`admin`", store.RoleAdmin, nil}, {"`operate`", store.RoleOperate, nil},
		{"`operate` with `--groups postgres`", store.RoleOperate, groups[:1]}, {"`approve`", store.RoleApprove, nil}, {"`view`", store.RoleView, nil},
	} {
		fmt.Fprintf(b, "\n%s:\n\n```hcl\n%s```\n", one.title, store.RoleRules(store.DefaultPrefix, one.role, one.groups, groups))
	}
}

// variable returns the first variable segment of a pattern.
func variable(pattern string) string {
	_, rest, _ := strings.Cut(pattern, "<")
	name, _, _ := strings.Cut(rest, ">")
	return name
}

// scopes says how a right is limited to groups, by the first variable segment of the pattern.
var scopes = map[string]string{
	"group": "the group's own", "scope": "the group's own, not `_all`", "slot": "the group's slots", "id": "an `<id>` that begins with the group and a dot",
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
