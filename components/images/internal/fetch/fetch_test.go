package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/images/internal/recipe"
)

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func serve(t *testing.T, files map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := files[r.URL.EscapedPath()]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func open(t *testing.T) *Cache {
	t.Helper()
	c, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func item(text string, places ...string) Item {
	return Item{
		Name: "deb x 1", Where: "x.lock:7", SHA256: digestOf(text), Size: int64(len(text)), Help: "lock anew",
		From: func(context.Context) ([]string, error) { return places, nil },
	}
}

func quiet(string) {}

func TestEnsureTakesTheNextPlace(t *testing.T) {
	url := serve(t, map[string]string{"/good": "bytes", "/other": "other"})
	c := open(t)
	if err := c.Ensure(t.Context(), []Item{item("bytes", url+"/none", url+"/other", url+"/good")}, quiet); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(c.Path(digestOf("bytes"))); err != nil || string(got) != "bytes" {
		t.Errorf("%q %v", got, err)
	}
}

func TestEnsureKeepsNothingOfAnotherDigest(t *testing.T) {
	url := serve(t, map[string]string{"/x": "evil!"})
	c := open(t)
	err := c.Ensure(t.Context(), []Item{item("bytes", url+"/x")}, quiet)
	if err == nil || !strings.Contains(err.Error(), "not the locked "+digestOf("bytes")) {
		t.Fatalf("got %v", err)
	}
	files, err := filepath.Glob(filepath.Join(c.dir, "*", "*"))
	if err != nil || len(files) != 0 {
		t.Errorf("left: %v %v", files, err)
	}
	if left, _ := filepath.Glob(filepath.Join(c.dir, ".new-*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestEnsureSaysWhatIsLostAndWhatToDo(t *testing.T) {
	url := serve(t, nil)
	err := open(t).Ensure(t.Context(), []Item{item("a", url+"/a.deb"), item("b", url+"/b.deb")}, quiet)
	for _, want := range []string{"deb x 1 (x.lock:7) cannot be had", url + "/a.deb: 404 Not Found", url + "/b.deb: 404 Not Found", "lock anew"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestEnsureFetchesABrokenFileAgain(t *testing.T) {
	url := serve(t, map[string]string{"/good": "bytes"})
	c := open(t)
	if err := os.WriteFile(c.Path(digestOf("bytes")), []byte("by"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Ensure(t.Context(), []Item{item("bytes", url+"/good")}, quiet); err != nil || !c.Has(digestOf("bytes")) {
		t.Errorf("%v", err)
	}
}

func TestEnsureBoundsWhatAServerSends(t *testing.T) {
	url := serve(t, map[string]string{"/long": strings.Repeat("x", 1<<20)})
	c := open(t)
	if err := c.Ensure(t.Context(), []Item{item("bytes", url+"/long")}, quiet); err == nil {
		t.Error("taken")
	}
}

func TestMirrorsAreTheMachinesOwn(t *testing.T) {
	apt := t.TempDir()
	if err := os.Mkdir(filepath.Join(apt, "sources.list.d"), 0o750); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"sources.list":          "# deb http://old.example/debian x main\ndeb [arch=amd64] https://one.example/mirror/debian/ bookworm main\ndeb http://other.example/tools stable main\n",
		"sources.list.d/d.list": "deb-src http://src.example/debian bookworm main\n",
		"sources.list.d/d.sources": "Types: deb\nURIs: http://two.example/debian http://two.example/debian-security\nSuites: bookworm\n\n" +
			"Types: deb\nEnabled: no\nURIs: http://off.example/debian\nSuites: bookworm\n",
	} {
		if err := os.WriteFile(filepath.Join(apt, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := ReadMirrors(apt)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	got := m.Of(recipe.Deb{Path: "debian/pool/main/g/g++/g++_1~2_amd64.deb"}, at)
	want := []string{
		"https://one.example/mirror/debian/pool/main/g/g++/g++_1~2_amd64.deb", "http://two.example/debian/pool/main/g/g++/g++_1~2_amd64.deb",
		"http://deb.debian.org/debian/pool/main/g/g++/g++_1~2_amd64.deb",
		"https://snapshot.debian.org/archive/debian/20260102T030405Z/pool/main/g/g++/g++_1~2_amd64.deb",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if first := m.First("debian-security"); first != "http://two.example/debian-security" {
		t.Errorf("first %s", first)
	}
	if first := ReadMirrors(t.TempDir()).First("debian"); first != "http://deb.debian.org/debian" {
		t.Errorf("without apt: %s", first)
	}
}

func TestIndexesAreAskedInBothForms(t *testing.T) {
	const file = "a_b-1.0+x-py3-none-any.whl"
	page := map[string]string{
		"/html/a-b/": `<a href="../../files/other.whl">o</a><a data-x="1" href="../../files/a_b-1.0%2Bx-py3-none-any.whl#sha256=00">w</a>`,
		"/json/a-b/": fmt.Sprintf(`{"files":[{"url":"/files/%s","hashes":{}}]}`, file),
		"/evil/a-b/": `<a href="file:///etc/` + file + `">w</a>`,
	}
	url := serve(t, page)
	w := recipe.Wheel{Name: "a-b", File: file}
	for index, want := range map[string]string{"html": url + "/files/a_b-1.0%2Bx-py3-none-any.whl", "json": url + "/files/" + file, "evil": ""} {
		got, err := Indexes{client: http.DefaultClient}.ask(t.Context(), url+"/"+index+"/"+w.Name+"/", file)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q %v", index, got, err)
		}
	}
}

func TestIndexesAreTheMachinesOwn(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "pip.conf")
	if err := os.WriteFile(conf, []byte("[global]\nindex-url = https://two.example/simple/\nfind-links = /some/wheels\ntimeout = 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	x := ReadIndexes(func(name string) string {
		return map[string]string{"PIP_INDEX_URL": "https://one.example/simple"}[name]
	}, []string{conf})
	if want := []string{"https://one.example/simple", "https://two.example/simple", publicIndex}; !slices.Equal(x.urls, want) {
		t.Errorf("got %q", x.urls)
	}
	if !slices.Equal(x.folders, []string{"/some/wheels"}) {
		t.Errorf("got %q", x.folders)
	}
}

// TestSizesOfLocksAreCompared, of present files and of fetched ones.
func TestSizesOfLocksAreCompared(t *testing.T) {
	url := serve(t, map[string]string{"/x": "bytes"})
	c := open(t)
	wrong := item("bytes", url+"/x")
	wrong.Size = 7
	for range 2 {
		if err := c.Ensure(t.Context(), []Item{wrong}, quiet); err == nil || !strings.Contains(err.Error(), "deb x 1 (x.lock:7): it has 5 bytes, and the lock says 7") {
			t.Errorf("err = %v", err)
		}
	}
	if err := c.Ensure(t.Context(), []Item{item("bytes")}, quiet); err != nil {
		t.Error(err)
	}
}

func TestErrorsHoldNoPasswords(t *testing.T) {
	host := strings.TrimPrefix(serve(t, nil), "http://")
	index := "http://somebody:secret@" + host + "/simple"
	err := open(t).Ensure(t.Context(), []Item{item("a", "http://token-secret@"+host+"/a.deb", "http://u:secret@127.0.0.1:1/b.deb")}, quiet)
	_, asked := Indexes{urls: []string{index}, client: http.DefaultClient}.Of(t.Context(), recipe.Wheel{Name: "x", File: "x.whl"})
	for _, err := range []error{err, asked} {
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "http://…@"+host) {
			t.Errorf("err = %v", err)
		}
	}
	for text, want := range map[string]string{
		"see https://a:b@c/d and http://e@f, x@y":          "see https://…@c/d and http://…@f, x@y",
		"http://host/path@1 has no password":               "http://host/path@1 has no password",
		"'http://u:p@ss@host/x' is split at the last sign": "'http://…@host/x' is split at the last sign",
	} {
		if got := Redact(text); got != want {
			t.Errorf("Redact(%q) = %q", text, got)
		}
	}
}
