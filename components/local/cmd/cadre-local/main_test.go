package main

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// flagsOf are some flags of serve, and three that belong to one start.
func flagsOf(args ...string) (*flag.FlagSet, map[string]*string, error) {
	flags, values := flag.NewFlagSet("serve", flag.ContinueOnError), map[string]*string{}
	for _, name := range []string{"nat", "udp", "images", "state", "gateway", "debug"} {
		values[name] = flags.String(name, name+" default", "")
	}
	return flags, values, flags.Parse(args)
}

// Omitted flags keep their values of the last start; given ones win, and stay.
func TestFlagsOfTheLastStart(t *testing.T) {
	first, _, err := flagsOf("--nat", "symmetric", "--udp", "blocked", "--gateway", "127.0.0.1:1", "--state", "x")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := kept(first), map[string]string{"nat": "symmetric", "udp": "blocked"}; !maps.Equal(got, want) {
		t.Fatalf("kept %v, want %v", got, want)
	}
	dir := t.TempDir()
	text := `{"api":"a","gateway":"g","domain":"d","flags":{"nat":"symmetric","udp":"blocked","gone":"of another version"}}`
	if err := os.WriteFile(filepath.Join(dir, "start.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	second, values, err := flagsOf("--udp", "open")
	if err != nil {
		t.Fatal(err)
	}
	if err := recall(second, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"nat": "symmetric", "udp": "open", "images": "images default", "gateway": "gateway default"} {
		if got := *values[name]; got != want {
			t.Errorf("--%s = %q, want %q", name, got, want)
		}
	}
	if got, want := kept(second), map[string]string{"nat": "symmetric", "udp": "open"}; !maps.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	if err := recall(first, filepath.Join(dir, "never")); err != nil {
		t.Errorf("a new cloud: %v", err)
	}
}

// TestFlagsThatAreMeantOtherwise are refused before anything is made.
func TestFlagsThatAreMeantOtherwise(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "images.tar")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a word in between": {[]string{"serve", "--state", dir + "/s", "--debug", "true", "--layout", dir}, `"true" is no flag`},
		"a layout in a tar": {[]string{"serve", "--state", dir + "/s", "--layout", file}, "is a file"},
		"a negative time":   {[]string{"serve", "--state", dir + "/s", "--layout", dir, "--boot-delay", "-3s"}, "--boot-delay -3s"},
		"an empty map":      {[]string{"serve", "--state", dir + "/s", "--images", file}, file},
		"no domain":         {[]string{"serve", "--state", dir + "/s", "--layout", dir, "--domain", "a b"}, "--domain"},
		"another platform":  {[]string{"serve", "--state", dir + "/s", "--layout", dir, "--platform", "aws"}, `--platform: "aws"`},
		"a host twice":      {[]string{"serve", "--state", dir + "/s", "--layout", dir, "--platform", "vmm", "--hosts", "a,a"}, "--hosts: host a"},
		"no webhook":        {[]string{"serve", "--state", dir + "/s", "--layout", dir, "--kms-auth", "localhost"}, "--kms-auth"},
		"an unknown VMM":    {[]string{"serve", "--state", dir + "/s", "--layout", dir, "--vmm-version", "9"}, "--vmm-version"},
		"cleanup of two":    {[]string{"cleanup", "--state", dir + "/s", "more"}, `"more" is no flag`},
	} {
		if err := run(c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: err = %v, want %q", name, err, c.want)
		}
	}
}
