package main

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
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

// What is left out is as it was at the last start; what is given wins, and stays.
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
