package specvalidate

import (
	"testing"

	"cadre.dev/core/group"
)

// Every pass and every watch evaluates a rejected spec, but its content is linted only once.
func TestContentIsLintedOnce(t *testing.T) {
	v := New("", nil)
	bad := group.Template{Compose: "services:\n  pg:\n    privileged: true\n"}
	if len(v.Template(bad)) == 0 || len(v.linted) != 1 {
		t.Fatalf("remembered: %v", v.linted)
	}
	for key := range v.linted {
		v.linted[key] = []group.Problem{{Path: "remembered"}}
	}
	if got := v.Template(bad); len(got) != 1 || got[0].Path != "remembered" {
		t.Errorf("linted again: %v", got)
	}
	bad.Env = map[string]string{"PATH": "/x"}
	if got := v.Template(bad); got[0].Path == "remembered" {
		t.Error("other content is taken for the same")
	}
}
