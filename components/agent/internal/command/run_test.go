package command

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestHK03_WordsAreNeverTakenForSyntax: every word reaches the program as it is, and
// nothing of the agent's environment does.
func TestHK03_WordsAreNeverTakenForSyntax(t *testing.T) {
	dir := t.TempDir()
	planted := filepath.Join(dir, "planted")
	hostile := []string{
		"$(touch " + planted + ")", "`touch " + planted + "`", "; touch " + planted, "| touch " + planted, "&& touch " + planted,
		"> " + planted, "-rf", "--", "$HOME", "*", "~", "a b", "", "\n", "'\"\\", "${IFS}touch${IFS}" + planted,
	}
	// The program tells its words back, each behind its length.
	argv := append([]string{"sh", "-c", `for w; do printf '%s:%s|' "${#w}" "$w"; done`, "sh"}, hostile...)
	code, output, err := Run(t.Context(), argv, nil)
	if err != nil || code != 0 {
		t.Fatalf("code %d, %v: %s", code, err, output)
	}
	var want strings.Builder
	for _, word := range hostile {
		want.WriteString(strconv.Itoa(len(word)) + ":" + word + "|")
	}
	if output != want.String() {
		t.Errorf("the program got\n%s\nwant\n%s", output, want.String())
	}
	if _, err := os.Lstat(planted); err == nil {
		t.Error("a word was carried out")
	}
	// A word is no program either: the first one is not looked into by a shell.
	for _, program := range hostile {
		if _, _, err := Run(t.Context(), []string{program, planted}, nil); err == nil {
			t.Errorf("%q was run", program)
		}
	}
	if _, _, err := Run(t.Context(), nil, nil); err == nil {
		t.Error("nothing was run")
	}
}

func TestHK03_HK07_TheAgentsEnvironmentIsNotInherited(t *testing.T) {
	t.Setenv("CADRE_CANARY", "c4nary")
	code, output, err := Run(t.Context(), []string{"env"}, []string{"CADRE_SLOT=pg-0"})
	if err != nil || code != 0 {
		t.Fatalf("code %d, %v", code, err)
	}
	if got := strings.Fields(output); len(got) != 2 || !strings.HasPrefix(got[0], "PATH=") || got[1] != "CADRE_SLOT=pg-0" {
		t.Errorf("environment %q", got)
	}
}
