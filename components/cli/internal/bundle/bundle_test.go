package bundle

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// read unpacks an archive.
func read(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	packed, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for r := tar.NewReader(packed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[header.Name] = string(text)
	}
}

func part(path string, content any, err error) Part {
	return Part{Path: path, Make: func(context.Context) (any, error) { return content, err }}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.tar.gz")
	const token = "f3e8ad11-100f-4c46-be89-799dcea022b8"
	index, err := Write(t.Context(), path, time.Minute, Index{Cluster: "demo"}, []Part{
		part("good.json", map[string]any{"n": json.Number("12345678901234567890"), "env": map[string]string{"NAME": "value"}}, nil),
		part("bad.json", nil, errors.New("get: no right for "+token)),
		part("half.txt", []byte("some "+token), errors.New("the rest is missing")),
		part("large.txt", make([]byte, maxPart+1), nil),
		part("broken.json", map[string]any{"f": func() {}}, nil),
		{Path: "late.txt", Make: func(ctx context.Context) (any, error) { return nil, context.DeadlineExceeded }},
	}, NewSecrets(token))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	files := read(t, path)
	if got := files["good.json"]; !strings.Contains(got, "12345678901234567890") || !strings.Contains(got, `"NAME": "(removed)"`) {
		t.Errorf("good.json is %s", got)
	}
	if files["half.txt"] != "some (removed)" || len(files["large.txt"]) != maxPart || len(files) != 4 {
		t.Errorf("%d files, half.txt %q", len(files), files["half.txt"])
	}
	var stored Index
	if err := json.Unmarshal([]byte(files[IndexName]), &stored); err != nil || len(stored.Parts) != 6 || stored.Errors() != 5 || index.Errors() != 5 {
		t.Errorf("index %s, %v", files[IndexName], err)
	}
	if strings.Contains(files[IndexName], token) {
		t.Errorf("the index has the token: %s", files[IndexName])
	}

	if _, err := Write(t.Context(), path, time.Minute, Index{}, nil, Secrets{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second write: %v", err)
	}
	if _, err := Write(t.Context(), filepath.Join(t.TempDir(), "no", "r"), time.Minute, Index{}, nil, Secrets{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	dir := t.TempDir()
	if _, err := Write(stopped, filepath.Join(dir, "r"), time.Minute, Index{}, nil, Secrets{}); !errors.Is(err, context.Canceled) {
		t.Errorf("an interruption: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("an interruption left %v", left)
	}
}

// A secret is removed in each form in which a program may write it.
func TestSecretsAreRemovedInEachForm(t *testing.T) {
	const secret = `s3cr+t/"with" <odd> bytes`
	s := NewSecrets(secret, "short", "")
	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"raw": secret, "json": string(quoted), "hex": hex.EncodeToString([]byte(secret)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"base64": base64.StdEncoding.EncodeToString([]byte(secret)), "inside base64": base64.URLEncoding.EncodeToString([]byte("Bearer " + secret + " and more")),
	} {
		cleaned, n := s.remove([]byte("before " + text + " after"))
		if n != 1 || !strings.Contains(string(cleaned), removed) {
			t.Errorf("%s: %d places in %s", name, n, cleaned)
		}
	}
	if cleaned, n := s.remove([]byte("a short text")); n != 0 || string(cleaned) != "a short text" {
		t.Errorf("%d places in %s", n, cleaned)
	}
}

func TestRedact(t *testing.T) {
	var tree any
	if err := json.Unmarshal([]byte(`{"spec":[{"Env":{"A":"1","B":{"C":["x"]}},"name":"n"}],"token":"t","password":null,"env":"A=1"}`), &tree); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(Redact(tree))
	if want := `{"env":"(removed)","password":null,"spec":[{"Env":{"A":"(removed)","B":{"C":["(removed)"]}},"name":"n"}],"token":"(removed)"}`; err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

func TestName(t *testing.T) {
	if got := Name("../a b/" + strings.Repeat("x", 200)); strings.ContainsAny(got, "./ ") || len(got) != 100 {
		t.Errorf("%q", got)
	}
}
