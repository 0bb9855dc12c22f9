package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Slot's own env has other values for names of the template, and no other names: the names are
// measured, and the Slot must run its Revision. The Slot proves the same Revision with any values,
// so the leader's record has the values that its CVM received (R143).

// EnvOf is the env of a Slot's CVM at a template, which may be that of another Revision than the
// spec's. The caller must not change it.
func (s Spec) EnvOf(ordinal int, t Template) map[string]string {
	own := s.ownEnv(ordinal, t)
	if len(own) == 0 {
		return t.Env
	}
	out := maps.Clone(t.Env)
	maps.Copy(out, own)
	return out
}

// OwnEnv names the values that a Slot has of its own at a template; empty: none. The same
// values have the same name.
func (s Spec) OwnEnv(ordinal int, t Template) string {
	own := s.ownEnv(ordinal, t)
	if len(own) == 0 {
		return ""
	}
	parts := []string{"cadre/own-env/v1", SlotName(s.Name, ordinal)}
	for _, name := range sortedKeys(own) {
		parts = append(parts, name, own[name])
	}
	return sumOf(contentHexLen, parts...)
}

// OwnEnvs returns a digest of all env values that Slots override at a template, whichever Slots
// have them; empty: none. An approval of the template's Revision covers this digest.
func (s Spec) OwnEnvs(t Template) string {
	var all []string
	for _, one := range s.Instances {
		if name := s.OwnEnv(one.Ordinal, t); name != "" {
			all = append(all, name)
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return sumOf(contentHexLen, append([]string{"cadre/own-envs/v1"}, slices.Compact(all)...)...)
}

// ownEnv returns the Slot's values that differ from the template's.
func (s Spec) ownEnv(ordinal int, t Template) map[string]string {
	own := maps.Clone(s.Instance(ordinal).Env)
	maps.DeleteFunc(own, func(name, value string) bool {
		has, ok := t.Env[name]
		return !ok || has == value
	})
	return own
}

// ownEnv refuses names that the group has not, and values that cannot be.
func (v *validator) ownEnv(path string, s Spec, one InstanceSettings) {
	total := 0
	for name, value := range s.EnvOf(one.Ordinal, s.Template) {
		total += len(name) + len(value)
	}
	for _, name := range sortedKeys(one.Env) {
		at := fmt.Sprintf("%s[%q]", path, name)
		if _, ok := s.Template.Env[name]; !ok {
			v.add(at, "R143", "is not in template.env: one slot has its own value of a name that the group has; add the name there")
		}
		if strings.ContainsRune(one.Env[name], 0) {
			v.add(at, "", "contains a zero byte")
		}
	}
	if total > maxEnvBytes {
		v.add(path, "", "makes %d bytes of env in all, at most %d are allowed", total, maxEnvBytes)
	}
}
