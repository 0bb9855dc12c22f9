package localcloud

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A hint about a cloud names that cloud: a bare command would mean another one.
func TestHintsNameTheirCloud(t *testing.T) {
	usual := filepath.Join(t.TempDir(), "usual")
	t.Setenv("CADRE_LOCAL_STATE", usual)
	other := filepath.Join(t.TempDir(), "my clouds", "two")
	for dir, want := range map[string]string{usual: "", usual + "/.": "", other: " --state '" + other + "'", "/two": " --state /two"} {
		if got := At(dir); got != want {
			t.Errorf("At(%s) = %q, want %q", dir, got, want)
		}
	}
	if _, err := ReadInfo(usual); err == nil || !strings.Contains(err.Error(), "`cadre local up`") {
		t.Errorf("the usual one: %v", err)
	}
	if _, err := ReadInfo(other); err == nil || !strings.Contains(err.Error(), "`cadre local up --state '"+other+"'`") {
		t.Errorf("another one: %v", err)
	}
}

// The hint for a daemon that does not answer is a command that ends it.
func TestTheHintsOfACloudThatDoesNotAnswer(t *testing.T) {
	t.Setenv("CADRE_LOCAL_STATE", t.TempDir())
	dir := t.TempDir()
	file(t, CloudFile(dir), `{"api_url": "http://127.0.0.1:1/api/v1", "api_key": "key"}`)
	info, err := ReadInfo(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := NewAPI(info).Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "`cadre local up --state "+dir+"`") {
		t.Errorf("the API: %v", err)
	}
	dir = t.TempDir()
	begun(t, dir, dir)
	file(t, CloudFile(dir), `{"api_url": "http://127.0.0.1:1/api/v1", "api_key": "key"}`)
	_, _, err = Start(within(t, time.Minute), StartOptions{Dir: dir, Program: self(t)})
	if err == nil || !strings.Contains(err.Error(), "`cadre local down --state "+dir+"`") {
		t.Errorf("Start: %v", err)
	}
}
