package group

import (
	"fmt"
	"slices"
)

func (v *validator) secrets(s Spec) {
	if len(s.Secrets) > maxSecrets {
		v.add("secret", "", "has %d secrets, at most %d are allowed", len(s.Secrets), maxSecrets)
	}
	if len(s.Secrets) > 0 && s.Name == clusterSecrets {
		v.add("secret", "", "the group %q may declare none: in the records the name means the whole cluster; rename the group", s.Name)
	}
	seen := map[string]bool{}
	for _, one := range s.Secrets {
		path := fmt.Sprintf("secret[%q]", one.Name)
		v.item(path, one.Name, seen)
		switch one.Source {
		case "", SecretGenerated:
			v.generated(path, one)
		case SecretOperator:
			v.sealed(path, one)
		default:
			v.add(path+".source", "", "%q is unknown: use %s, or %s for a value that `cadre secret set` gives", one.Source, SecretGenerated, SecretOperator)
			v.generated(path, one)
		}
		if _, _, ok := one.FileOwner(); !ok {
			v.add(path+".owner", "", "%q is not an owner: use numbers, \"uid\" or \"uid:gid\", e.g. \"999:999\"", one.Owner)
		}
		if _, ok := one.FileMode(); !ok {
			v.add(path+".mode", "TOK-16", "%q is not a mode for a secret: use 0400, 0600, 0440, 0640 or 0660, which other users cannot read", one.Mode)
		}
		v.poolerRoutes(path, one)
	}
}

// generated judges the fields of a secret that coordinators derive.
func (v *validator) generated(path string, one Secret) {
	if one.Bytes < minSecretBytes || one.Bytes > maxSecretBytes {
		v.add(path+".bytes", "", "is %d: must be %d to %d", one.Bytes, minSecretBytes, maxSecretBytes)
	}
	switch one.Format {
	case SecretHex, SecretBase64, SecretRaw:
	default:
		v.add(path+".format", "", "%q is unknown: use %s, %s or %s", one.Format, SecretHex, SecretBase64, SecretRaw)
	}
	if _, ok := one.Every(); !ok {
		v.add(path+".rotate", "", "%q is neither %q nor a duration from %s to %s, e.g. \"720h\"", one.Rotate, RotateManual, minRotate, maxRotate)
	}
}

// sealed refuses the fields that only a generated value has.
func (v *validator) sealed(path string, one Secret) {
	const remove = "is for a generated value only: remove the field, or remove source = \"operator\""
	if one.Bytes != 0 {
		v.add(path+".bytes", "", remove)
	}
	if one.Format != "" {
		v.add(path+".format", "", remove+"; the file has the bytes of the operator's value as they are")
	}
	if one.Rotate != "" {
		v.add(path+".rotate", "", remove+"; for another value run `cadre secret set` again")
	}
}

// poolerRoutes judges names of routes, which may be declared later than this group.
func (v *validator) poolerRoutes(path string, one Secret) {
	if len(one.PoolerRoutes) > maxRoutes {
		v.add(path+".pooler_routes", "", "has %d routes, at most %d are allowed", len(one.PoolerRoutes), maxRoutes)
	}
	if len(one.PoolerRoutes) > 0 && one.Format == SecretRaw {
		v.add(path+".pooler_routes", "", "a password is text: use the format %s or %s", SecretHex, SecretBase64)
	}
	for i, name := range one.PoolerRoutes {
		if p := NameProblem(name); p != "" {
			v.add(fmt.Sprintf("%s.pooler_routes[%d]", path, i), "", "%q %s", name, p)
		}
	}
}

// clusterSecrets is the cluster's name in the keys of the records of secrets.
const clusterSecrets = "cluster"

// ruleSecretInSpec is the code under which a secret in a spec is refused.
const ruleSecretInSpec = "SECRET_IN_SPEC"

// leaks rejects secrets that were typed into the spec (OPS-07, TOK-06): every reader of the spec,
// its history or a plan would have them. Messages never repeat a value.
func (v *validator) leaks(s Spec) {
	used := map[string]bool{}
	check := func(where string, values map[string]string) {
		for _, name := range sortedKeys(values) {
			why := leakIn(name, values[name])
			if why == "" {
				continue
			}
			if slices.Contains(s.NotSecret, name) {
				used[name] = true
				if !why.certain() {
					continue
				}
			}
			v.add(fmt.Sprintf("%s[%q]", where, name), ruleSecretInSpec, "%s: %s", why, why.wayOut())
		}
	}
	check("template.env", s.Template.Env)
	check("meta", s.Meta)
	for _, one := range s.Instances {
		check(instancePath(one)+".metadata", one.Metadata)
		check(instancePath(one)+".env", one.Env)
	}
	check("workload.settings", s.Workload.Settings)
	for i, name := range s.NotSecret {
		if !used[name] {
			v.add(fmt.Sprintf("not_secret[%d]", i), "", "%q names nothing that looks like a secret: remove it, or it would hide a later mistake", name)
		}
	}
	if why := leakInText(s.Template.Compose); why != "" {
		v.add("template.compose", ruleSecretInSpec, "%s: %s", why, why.wayOut())
	}
}
