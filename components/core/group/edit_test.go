package group_test

import (
	"strings"
	"testing"

	"cadre.dev/core/group"
)

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
