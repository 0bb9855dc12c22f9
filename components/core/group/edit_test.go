package group_test

import (
	"strings"
	"testing"

	"cadre.dev/core/group"
)

// TestR131_UnchangeableFieldsAreRefused under every policy of the spec: the new CVMs would be in
// another app than the old ones.
func TestR131_UnchangeableFieldsAreRefused(t *testing.T) {
	one, other := strings.Repeat("ab", 20), strings.Repeat("cd", 20)
	for _, c := range []struct {
		name     string
		old, new group.Spec
		path     string // "": it may
	}{
		{"the same app", group.Spec{AppID: one}, group.Spec{AppID: one}, ""},
		{"the app is written down", group.Spec{}, group.Spec{AppID: one}, ""},
		{"the app is left out", group.Spec{AppID: one}, group.Spec{}, ""},
		{"another app", group.Spec{AppID: one}, group.Spec{AppID: other}, "app_id"},
		{"another platform", group.Spec{Platform: "phala"}, group.Spec{Platform: "dstack"}, "platform"},
	} {
		for _, allowed := range append(group.UpdateActions(), "") {
			c.new.UpdatePolicy.MostDisruptiveAllowedAction = allowed
			got := group.EditProblems(c.old, c.new)
			switch {
			case c.path == "" && len(got) > 0:
				t.Errorf("%s: %v", c.name, got)
			case c.path == "":
			case len(got) != 1 || got[0].Path != c.path || got[0].Rule != "R131" || !strings.Contains(got[0].Message, "make another group"):
				t.Errorf("%s, allowed %q: %v, want one problem of %s with the way out", c.name, allowed, got, c.path)
			}
		}
	}
}

func TestR131_ADiskOnlyGrows(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to int
		want     []string // parts of the problem; nil: none
	}{
		{"the same", 40, 40, nil},
		{"more", 40, 41, nil},
		{"named for the first time", 0, 40, nil},
		{"never named", 0, 0, nil},
		{"less", 40, 20, []string{"is 20", "says 40", "40 or give more", "new group"}},
		{"left out again", 40, 0, []string{"is absent", "says 40", "leave it at 40"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var old, next group.Spec
			old.Template.DiskGB, next.Template.DiskGB = c.from, c.to
			got := group.EditProblems(old, next)
			if (len(got) > 0) != (c.want != nil) {
				t.Fatalf("EditProblems = %v, want parts %q", got, c.want)
			}
			for _, p := range got {
				if p.Path != "template.disk_gb" || p.Rule != "R131" {
					t.Errorf("problem %+v, want one of template.disk_gb by R131", p)
				}
				for _, part := range c.want {
					if !strings.Contains(p.Message, part) {
						t.Errorf("%q does not say %q", p.Message, part)
					}
				}
			}
		})
	}
}

// TestASecretKeepsItsForm: another form is another value, without an epoch that informs the
// workload.
func TestASecretKeepsItsForm(t *testing.T) {
	of := func(kind string, secrets ...group.Secret) group.Spec {
		return group.Spec{Workload: group.Workload{Kind: kind}, Secrets: secrets}
	}
	cookie := group.Secret{Name: "cookie"}
	for _, c := range []struct {
		name     string
		old, new group.Spec
		path     string // "": it may
	}{
		{"the defaults are written down", of("", cookie), of("", group.Secret{Name: "cookie", Bytes: 24, Format: group.SecretHex}), ""},
		{"what is no part of the value", of("", cookie), of("", group.Secret{Name: "cookie", Owner: "999:999", Mode: "0440", Rotate: "24h"}), ""},
		{"another one beside it", of("", cookie), of("", cookie, group.Secret{Name: "longer", Bytes: 32}), ""},
		{"its bytes", of("", cookie), of("", group.Secret{Name: "cookie", Bytes: 32}), `secret["cookie"].bytes`},
		{"its format", of("", group.Secret{Name: "cookie", Format: group.SecretRaw}), of("", cookie), `secret["cookie"].format`},
		{"its source", of("", cookie), of("", group.Secret{Name: "cookie", Source: group.SecretOperator}), `secret["cookie"].source`},
		{"the source of an operator's", of("", group.Secret{Name: "cookie", Source: group.SecretOperator}), of("", cookie), `secret["cookie"].source`},
		{"an operator's owner", of("", group.Secret{Name: "cookie", Source: group.SecretOperator}), of("", group.Secret{Name: "cookie", Source: group.SecretOperator, Owner: "9"}), ""},
		{"the source that is the default", of("", cookie), of("", group.Secret{Name: "cookie", Source: group.SecretGenerated}), ""},
		{"an implied one's format", of("patroni"), of("patroni", group.Secret{Name: "superuser", Format: group.SecretBase64}), `secret["superuser"].format`},
	} {
		got := group.EditProblems(c.old, c.new)
		switch {
		case c.path == "" && len(got) > 0:
			t.Errorf("%s: %v", c.name, got)
		case c.path == "":
		case len(got) != 1 || got[0].Path != c.path || !strings.Contains(got[0].Message, "rotate the secret"):
			t.Errorf("%s: %v, want one problem of %s with the way out", c.name, got, c.path)
		}
	}
}
